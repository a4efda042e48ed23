"""Lets a test read what another has compiled: equal functions of TensorFlow get equal names."""

import hashlib
import sys

_TENSORFLOW = "tensorflow.python.eager.polymorphic_function.atomic_function"
_PREFIX = "__inference_"


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
