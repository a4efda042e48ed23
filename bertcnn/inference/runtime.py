"""OpenVINO and NNCF, imported without their telemetry.

When they are imported, both report it to their makers, and leave an id in the user's home, unless
`openvino_telemetry` cannot be imported. It cannot while these imports run, and can again after
them, so that other code of the process imports what it likes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_TELEMETRY = "openvino_telemetry"


@contextmanager
def without_telemetry() -> Iterator[None]:
    """A block in which `openvino_telemetry` cannot be imported; `sys.modules` is then as before."""
    before = {
        name: module
        for name, module in [*sys.modules.items()]  # others may import
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

# The binding makes its tables of types at their first use. Two threads that come to that at the
# same time wait for each other without end: one for Python's lock, the other for the table's.
_tensor = ov.Tensor(np.zeros(1, np.int32))
_ = _tensor.shape, _tensor.element_type, _tensor.data

__all__ = ["ops", "ov", "without_telemetry"]
