"""The HTTP service: requests share batches, and models are replaced without downtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.serving.options import Limits as Limits
    from bertcnn.serving.options import ServeOptions as ServeOptions
    from bertcnn.serving.options import folders_of as folders_of
    from bertcnn.serving.options import named_models as named_models
    from bertcnn.serving.supervise import Supervisor as Supervisor
    from bertcnn.serving.supervise import address_of as address_of
    from bertcnn.serving.supervise import bound_socket as bound_socket
    from bertcnn.serving.supervise import check_platform as check_platform
    from bertcnn.serving.token import check_access as check_access

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
