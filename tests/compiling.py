"""Lets a test read what another has compiled: equal functions of TensorFlow get equal names.

And what NNCF has found in a graph is looked up where another test has an equal one.
"""

import functools
import hashlib
import sys

_TENSORFLOW = "tensorflow.python.eager.polymorphic_function.atomic_function"
_PREFIX = "__inference_"
_SEARCHERS = ("nncf.common.graph.graph", "nncf.common.insertion_point_graph")
_SEARCH = "find_subgraphs_matching_pattern"


def name_functions_by_content() -> None:
    """Ends the names of TensorFlow's functions with a digest, once TensorFlow is imported.

    They end with a number that counts up, and XLA looks for compiled code by the name as well: of
    two equal trainings of a process, the second would be compiled again. TensorFlow refuses a
    function whose name is taken by another, so equal names with unequal contents are an error.
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
    """Of all that a function computes, and of its ends; of digits, as SavedModel wants names."""
    digest = hashlib.sha256(graph.as_graph_def().SerializeToString(deterministic=True))
    ends = [[tensor.name for tensor in tensors] for tensors in (graph.inputs, graph.outputs)]
    digest.update(repr((ends, sorted((attrs or {}).items()))).encode())
    return str(int.from_bytes(digest.digest()[:7]))


def remember_matches() -> None:
    """Has NNCF search equal graphs for equal patterns only once, once NNCF is imported.

    It searches in pure Python, at every training, and for the same: the graphs of the tiny models
    differ in their weights, which no pattern looks at.
    """
    for name in _SEARCHERS:
        module = sys.modules.get(name)
        search = getattr(module, _SEARCH, None)
        if search is not None and not hasattr(search, "__wrapped__"):
            setattr(module, _SEARCH, remembered(search))


def remembered(search):
    """`search` of NNCF, whose answers for a graph and patterns are kept, by the nodes' places.

    Their names count up.
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
    """A digest of all that decides about the answer: of a graph, what patterns may look at."""
    read = {name for _, attributes in patterns.nodes(data=True) for name in attributes}
    read.add("metatype")  # without being named in a pattern
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
