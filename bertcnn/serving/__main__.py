"""`python -m bertcnn.serving LISTENER PARENT OPTIONS`: a worker process; see `supervise`."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from bertcnn.inference import CORES
from bertcnn.serving.loader import loader_thread
from bertcnn.serving.logs import start_logging
from bertcnn.serving.options import ServeOptions

if TYPE_CHECKING:
    from bertcnn.serving.models import ServedModel


def main() -> int:
    """Serve; models load while the HTTP server is being imported."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is a model to reload
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    start_logging()
    # OpenVINO's model converter takes half of the import time, and may be missing
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
    listener, parent = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    options = ServeOptions.model_validate_json(sys.argv[3])
    if options.cores is not None:
        os.environ[CORES] = str(options.cores)
    with loader_thread() as loader:
        models = loader.submit(_loaded, options)
        from bertcnn.serving.run import work

        return work(options, models.result, loader, listener, parent)


def _loaded(options: ServeOptions) -> list[ServedModel]:
    from bertcnn.serving.models import load_model

    warm = not options.after_death
    return [load_model(name, location, warm=warm) for name, location in options.models.items()]


if __name__ == "__main__":
    sys.exit(main())
