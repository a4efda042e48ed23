"""Checks that a saved engine computes the model's network, before OpenVINO reads it.

Uses neither OpenVINO nor NumPy.

Hashes find accidental damage, but a forger can recompute them. OpenVINO would also read ONNX and
other formats under the same name, load files from outside the folder, and run endless loops. So the
graph must equal, node by node, the graph that this package builds for the model's settings. The
only additions allowed are those of int8: rounding, factors, and int8 weights with scales. Weight
values are not checked.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from bertcnn.errors import one_line
from bertcnn.storage.manifest import refuse

_ITEM_BYTES: Final = {"f32": 4, "i32": 4, "i8": 1}  # all constant types in our graphs
_CHILDREN: Final = {
    "net": {"layers", "edges"},
    "layers": {"layer"},
    "edges": {"edge"},
    "layer": {"data", "input", "output"},
    "input": {"port"},
    "output": {"port"},
    "port": {"dim"},
}
_SEVERAL: Final = {
    "layer",
    "edge",
    "port",
    "dim",
}  # elements that may occur next to others of their kind
_NOTES: Final = "rt_info"  # OpenVINO copies it at every step, but does not need it
_START: Final = b'<?xml version="1.0"?>\n<net '
_VERSION: Final = "11"  # of OpenVINO's format
_SHORT: Final = 16  # elements: axes, shapes and single numbers, whose values are compared
_LONGEST: Final = 256  # characters per attribute; our longest has 57
_MOST_TIMES: Final = 3  # size limit relative to the reference's XML; int8 has 1.6 times as much
_EXPECTED: Final = "the network that bertcnn builds for this model's settings"

_CONST, _CONVERSION, _PRODUCT, _ROUNDING, _RESULT = (
    f"{kind} opset1" for kind in ("Const", "Convert", "Multiply", "FakeQuantize", "Result")
)

Port = tuple[str, int]  # layer id, output index
Form = int  # equal for two layers if they compute the same from the same inputs
Origin = tuple[Form, int]  # a layer's form, output index
Shape = tuple[str, ...]


@dataclass(frozen=True)
class _Node:
    """A layer of OpenVINO's XML: type, version, attributes, input sources and output shapes."""

    kind: str
    settings: Mapping[str, str]
    sources: tuple[Port, ...]
    shapes: tuple[Shape, ...]


def checked_graph(graph: bytes, constants: bytes, reference: tuple[bytes, bytes]) -> bytes:
    """The checked XML for OpenVINO, without notes (`rt_info`).

    The graph may differ from the reference only in its weights and in the additions of int8.
    `reference` has XML and constants of the expected graph, with any weights.

    Raises:
        BundleError: it is not XML of OpenVINO's format, or another graph.
    """
    most = _MOST_TIMES * len(reference[0])
    if len(graph) > most:
        refuse(f"engine/model.xml has {len(graph):,} bytes", f"at most {most:,} for this model")
    forms: dict[tuple[object, ...], Form] = {}
    expected = _outputs(_parsed(reference[0]), reference[1], forms)
    try:
        net = _parsed(graph)
        found = _outputs(net, constants, forms)
    except (ElementTree.ParseError, graphlib.CycleError, LookupError, ValueError) as error:
        refuse(f"engine/model.xml is not a graph that bertcnn saved ({one_line(error)})", _EXPECTED)
    if found != expected:
        differ = sorted(
            name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
        )
        refuse(f"engine/model.xml has another graph for {one_line(', '.join(differ))}", _EXPECTED)
    return ElementTree.tostring(net, encoding="us-ascii", xml_declaration=True)


def _outputs(
    net: ElementTree.Element, constants: bytes, forms: dict[tuple[object, ...], Form]
) -> dict[str, Origin]:
    """The origin of each named output.

    Raises:
        ValueError, ParseError, CycleError, LookupError: the graph is not one of ours.
    """
    nodes = _nodes(net)
    order = graphlib.TopologicalSorter(
        {place: [layer for layer, _ in node.sources] for place, node in nodes.items()}
    ).static_order()
    origins: dict[Port, Origin] = {}
    results: dict[str, Origin] = {}
    for place in order:
        node = nodes[place]
        inputs = tuple(origins[source] for source in node.sources)
        if _keeps_form(node, nodes):
            origins[place, 0] = inputs[0]
            continue
        if node.kind == _RESULT:
            results[node.settings["output_names"]] = inputs[0]
        form = forms.setdefault(_key(node, nodes, inputs, constants), len(forms))
        origins.update({(place, output): (form, output) for output in range(len(node.shapes))})
    read = {layer for node in nodes.values() for layer, _ in node.sources}
    if any((place in read) == (node.kind == _RESULT) for place, node in nodes.items()):
        raise ValueError("a layer without use")
    return results


def _keeps_form(node: _Node, nodes: Mapping[str, _Node]) -> bool:
    """Whether int8 added the node: rounding, or a constant factor that keeps the shape."""
    if node.kind not in (_ROUNDING, _PRODUCT) or any(
        nodes[layer].kind != _CONST for layer, _ in node.sources[1:]
    ):
        return False
    shapes = [nodes[layer].shapes[output] for layer, output in node.sources]
    return node.shapes == (shapes[0],) and all(
        _broadcasts(factors, shapes[0]) for factors in shapes[1:]
    )


def _broadcasts(factors: Shape, shape: Shape) -> bool:
    behind = shape[len(shape) - len(factors) :]
    return len(factors) <= len(shape) and all(
        factor in ("1", length) for factor, length in zip(factors, behind, strict=True)
    )


def _key(
    node: _Node, nodes: Mapping[str, _Node], inputs: tuple[Origin, ...], constants: bytes
) -> tuple[object, ...]:
    """Everything that determines a node's form; int8 weights count as float32 weights."""
    if (
        node.kind == _CONVERSION
        and (source := nodes[node.sources[0][0]]).kind == _CONST
        and source.settings["element_type"] == "i8"
    ):
        as_constant = {**node.settings, "element_type": node.settings["destination_type"]}
        del as_constant["destination_type"]
        return _CONST, tuple(sorted(as_constant.items())), (), node.shapes, b""
    settings, values = dict(node.settings), b""
    if node.kind == _CONST:
        values = _values(settings, node.shapes[0], constants)
    return node.kind, tuple(sorted(settings.items())), inputs, node.shapes, values


def _values(settings: dict[str, str], shape: Shape, constants: bytes) -> bytes:
    """The values of a short constant (axes, shapes, single numbers), which belong to its form.

    Removes the constant's offset and size from `settings`.
    """
    offset, size, dims, kind = (
        settings.pop(name) for name in ("offset", "size", "shape", "element_type")
    )
    elements = math.prod(map(_whole, shape))
    if (
        dims != ", ".join(shape)
        or _whole(size) != elements * _ITEM_BYTES[kind]
        or _whole(offset) + _whole(size) > len(constants)
    ):
        raise ValueError("a constant that is not in model.bin")
    settings["element_type"] = kind
    is_short = not shape or (kind == "i32" and elements <= _SHORT)
    return constants[_whole(offset) : _whole(offset) + _whole(size)] if is_short else b""


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{one_line(text)} in place of a whole number")
    return int(text)


# === OpenVINO's XML ===


def _parsed(graph: bytes) -> ElementTree.Element:
    """OpenVINO's XML without notes; refuses elements and lengths that OpenVINO never writes."""
    if (
        not graph.startswith(_START)
        or b"<!" in graph
        or graph.count(b"<?") > 1
        or not graph.isascii()
    ):
        raise ValueError("not the XML that OpenVINO writes")
    net = ElementTree.fromstring(graph)
    for notes in net.findall(_NOTES):
        net.remove(notes)
    for element in net.iter():
        names = [child.tag for child in element]
        once = [name for name in names if name not in _SEVERAL]
        if not _CHILDREN.get(element.tag, set()).issuperset(names) or len(once) > len(set(once)):
            raise ValueError(f"{one_line(element.tag)} with other elements than OpenVINO writes")
        if any(len(value) > _LONGEST for value in element.attrib.values()):
            raise ValueError(f"an attribute of more than {_LONGEST} characters")
    if net.attrib["version"] != _VERSION:
        raise ValueError(f"version {one_line(net.attrib['version'])}")
    return net


def _nodes(net: ElementTree.Element) -> dict[str, _Node]:
    sources: dict[str, dict[str, Port]] = {}
    layers = {layer.attrib["id"]: layer for layer in net.iterfind("layers/layer")}
    outputs = {
        place: [port.attrib["id"] for port in layer.iterfind("output/port")]
        for place, layer in layers.items()
    }
    for edge in net.iterfind("edges/edge"):
        origin, target = edge.attrib["from-layer"], sources.setdefault(edge.attrib["to-layer"], {})
        if edge.attrib["to-port"] in target:
            raise ValueError("two edges to one port")
        target[edge.attrib["to-port"]] = origin, outputs[origin].index(edge.attrib["from-port"])
    if len(layers) != len(net.findall("layers/layer")) or not sources.keys() <= layers.keys():
        raise ValueError("a layer that is there twice or not at all")
    return {place: _node(layer, sources.get(place, {})) for place, layer in layers.items()}


def _node(layer: ElementTree.Element, sources: Mapping[str, Port]) -> _Node:
    """A layer; `sources` maps input ports to their origins."""
    inputs, outputs = layer.findall("input/port"), layer.findall("output/port")
    ports = [port.attrib["id"] for port in (*inputs, *outputs)]
    if ports != [str(number) for number in range(len(ports))] or sources.keys() != set(
        ports[: len(inputs)]
    ):
        raise ValueError("a layer whose ports are not in order, or without edges")
    settings = {
        name: value
        for name, value in layer.attrib.items()
        if name not in ("id", "name", "type", "version")
    }
    data = layer.find("data")
    settings |= {} if data is None else data.attrib
    settings |= {
        f"output {number}": f"{port.attrib['precision']} {port.attrib.get('names', '')}"
        for number, port in enumerate(outputs)
    }
    shapes = tuple(tuple(str(dim.text) for dim in port.iterfind("dim")) for port in outputs)
    kind = f"{layer.attrib['type']} {layer.attrib['version']}"
    return _Node(kind, settings, tuple(sources[port] for port in ports[: len(inputs)]), shapes)
