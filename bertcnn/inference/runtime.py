"""OpenVINO and NNCF, imported without telemetry.

At import, both send telemetry and store an id in the user's home, unless `openvino_telemetry`
cannot be imported. It is blocked only during these imports, so other code can import it later.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_TELEMETRY = "openvino_telemetry"


@contextmanager
def without_telemetry() -> Iterator[None]:
    """Block the import of `openvino_telemetry`, then restore `sys.modules`."""
    before = {
        name: module
        for name, module in [*sys.modules.items()]  # other threads may import
        if name == _TELEMETRY or name.startswith(f"{_TELEMETRY}.")
    }
    for name in before:
        del sys.modules[name]
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_TELEMETRY]
        sys.modules.update(before)


with without_telemetry():
    import openvino as ov
    from openvino import opset13 as ops

# The binding creates its type tables at first use. Two threads that do so at the same time
# deadlock: one waits for Python's lock, the other for the table's.
_tensor = ov.Tensor(np.zeros(1, np.int32))
_ = _tensor.shape, _tensor.element_type, _tensor.data

__all__ = ["ops", "ov", "without_telemetry"]
