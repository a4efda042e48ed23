"""Lets tests share compiled code: equal TensorFlow functions get equal names.

NNCF's pattern matches are shared too, between equal graphs.
"""

import functools
import hashlib
import sys

_TENSORFLOW = "tensorflow.python.eager.polymorphic_function.atomic_function"
_PREFIX = "__inference_"
_SEARCHERS = ("nncf.common.graph.graph", "nncf.common.insertion_point_graph")
_SEARCH = "find_subgraphs_matching_pattern"


def name_functions_by_content() -> None:
    """Append a content digest to the names of TensorFlow functions, once TensorFlow is imported.

    By default the names end in a counter, and XLA's cache key includes the name: the second of two
    equal trainings in a process would be compiled again. TensorFlow refuses a second function with
    the same name, so equal names with different contents are an error.
    """
    module = sys.modules.get(_TENSORFLOW)
    make = getattr(module, "from_func_graph", None)
    if make is None or hasattr(make, "__wrapped__"):  # not imported yet, or done already
        return

    def from_func_graph(name, graph, attrs, *others, **options):
        if name.startswith(_PREFIX):
            name = f"{name.rpartition('_')[0]}_{_digest(graph, attrs)}"
        return make(name, graph, attrs, *others, **options)

    from_func_graph.__wrapped__ = make
    module.from_func_graph = from_func_graph


def _digest(graph, attrs) -> str:
    """A digest of a function's graph, inputs and outputs; only digits, as SavedModel requires."""
    digest = hashlib.sha256(graph.as_graph_def().SerializeToString(deterministic=True))
    ends = [[tensor.name for tensor in tensors] for tensors in (graph.inputs, graph.outputs)]
    digest.update(repr((ends, sorted((attrs or {}).items()))).encode())
    return str(int.from_bytes(digest.digest()[:7]))


def remember_matches() -> None:
    """Make NNCF search each graph for the same patterns only once, once NNCF is imported.

    NNCF searches in pure Python at every training. The graphs of the tiny models differ only in
    their weights, which no pattern reads.
    """
    for name in _SEARCHERS:
        module = sys.modules.get(name)
        search = getattr(module, _SEARCH, None)
        if search is not None and not hasattr(search, "__wrapped__"):
            setattr(module, _SEARCH, remembered(search))


def remembered(search):
    """NNCF's `search` with its results cached per graph and patterns.

    Results are stored as node positions, since the nodes' names contain a counter.
    """
    answers: dict[bytes, list[list[int]]] = {}

    @functools.wraps(search)
    def look_up(graph, pattern_graph, strict=True):
        nodes = list(graph)
        places = {node: place for place, node in enumerate(nodes)}
        key = _searched(graph, places, pattern_graph.graph, strict)
        if key not in answers:
            found = search(graph, pattern_graph, strict)
            answers[key] = [[places[node] for node in match] for match in found]
        return [[nodes[place] for place in match] for match in answers[key]]

    return look_up


def _searched(graph, places, patterns, strict) -> bytes:
    """A digest of everything the search reads: the patterns, and node attributes they name."""
    read = {name for _, attributes in patterns.nodes(data=True) for name in attributes}
    read.add("metatype")  # read without being named in a pattern
    searched = (
        [
            [(name, attributes.get(name)) for name in sorted(read)]
            for _, attributes in graph.nodes(data=True)
        ],
        sorted((places[start], places[end]) for start, end in graph.edges()),
        list(patterns.nodes(data=True)),
        list(patterns.edges()),
        strict,
    )
    return hashlib.sha256(repr(searched).encode()).digest()
