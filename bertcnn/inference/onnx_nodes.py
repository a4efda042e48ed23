"""Adds ONNX nodes and constants to a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class OnnxNodes:
    """The nodes of a graph in order, and its constants without duplicates."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._known: set[str] = set()

    def constant(self, values: np.ndarray, name: str) -> str:
        """Add a named constant once."""
        if name not in self._known:
            self._known.add(name)
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def scalar(self, value: float) -> str:
        """Add a float32 constant."""
        return self.constant(np.array(value, np.float32), f"scalar_{value:.9g}")

    def integers(self, *values: int) -> str:
        """Add an int64 constant, [len(values)]."""
        return self.constant(np.array(values, np.int64), f"integers_{'_'.join(map(str, values))}")

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:  # noqa: ANN401
        """Add a node and return its output's name."""
        output = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], output, **attributes))
        return output
