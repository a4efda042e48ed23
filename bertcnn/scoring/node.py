"""The process on each node of a cluster: receives the model and answers texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Self

import numpy as np

from bertcnn.bundle import (
    ENGINE,
    MissingError,
    ModelFiles,
    described,
    keep_model,
    sent_pieces,
    verified,
)
from bertcnn.errors import BundleError
from bertcnn.inference import Answers, EngineName, Predictor, has_bfloat16, load
from bertcnn.settings import PrecisionTargets
from bertcnn.storage import MANIFEST, cache_folder

_ENGINE_MANIFEST = f"{ENGINE}/{MANIFEST}"
_DECIDE = ("bertcnn", "openvino", "tokenizers")  # packages that affect the answers

Load = Callable[[], Predictor]


@dataclass(eq=False)
class SentModel:
    """A saved model that is sent to the nodes; calling it there loads the model.

    Attributes:
        name: for messages.
        folder: on the sending machine.
        manifest: bytes of the manifest.
        contents: bytes of all other files by name, each uint8 [n].
        engine: see `bertcnn.load`.
        auto_precision: required precision of automatic answers; by default as saved.
        pinned: True, the content never changes.
    """

    name: str
    folder: Path
    manifest: bytes
    contents: dict[str, np.ndarray]
    engine: EngineName = "auto"
    auto_precision: PrecisionTargets | None = None
    pinned: bool = True

    @classmethod
    def of_folder(
        cls, folder: Path, engine: EngineName, auto_precision: PrecisionTargets | None
    ) -> Self:
        """The model in a folder.

        Raises:
            BundleError: it is not a model, or was changed after saving.
        """
        files = verified(folder)
        contents = {
            file.name: np.frombuffer(b"".join(sent_pieces(folder, file)), np.uint8)
            for file in files.files
        }
        name = f"the model {files.identity[:12]} as it was sent"
        return cls(name, folder.absolute(), files.data, contents, engine, auto_precision)

    def __call__(self) -> Predictor:
        """Load the model from the same folder if this machine has it, else from the node's cache.

        All files are compared with their hashes.

        Raises:
            BundleError: the model was damaged in transfer, or cannot run on this node.
            OutputError: the node's cache is not writable.
        """
        folder = self.folder if self._is_in(self.folder) else keep_model(self, self._cache)
        return load(folder, engine=self.engine, auto_precision=self.auto_precision)

    def _is_in(self, folder: Path) -> bool:
        try:
            return verified(folder) == self._files
        except BundleError:
            return False

    @cached_property
    def _files(self) -> ModelFiles:
        engine = self.contents.get(_ENGINE_MANIFEST)
        return described(self.manifest, None if engine is None else engine.tobytes())

    @property
    def _cache(self) -> Path:
        """A cache folder for models with this engine, which the bundle id does not cover."""
        engine = self.contents.get(_ENGINE_MANIFEST)
        name = "none" if engine is None else blake2b(engine.tobytes(), digest_size=16).hexdigest()
        return cache_folder() / "sent" / name

    def read_manifest(self) -> bytes:
        """The manifest's bytes."""
        return self.manifest

    def pieces(self, identity: str, name: str, offset: int) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002
        """A file's bytes; see `bertcnn.bundle.places.Source`."""
        if name not in self.contents:
            raise MissingError(
                f"{self.name} has no {name}",
                expected="all files of the model",
                fix="run it again",
            )
        yield offset, self.contents[name][offset:].tobytes()


@dataclass(frozen=True)
class NodeReport:
    """Everything that a node's answers depend on; equal reports mean equal answers.

    Attributes:
        in_full: whether the CPU supports the engine's precision; bfloat16 may run as float32.
        versions: of the packages that affect the answers, "bertcnn 0.1.0" and others.
    """

    engine: str
    in_full: bool
    versions: tuple[str, ...]

    @classmethod
    def here(cls, predictor: Predictor) -> Self:
        """The report of this node, which has loaded the model."""
        engine = predictor.engine.name
        in_full = engine != "openvino-bfloat16" or has_bfloat16()
        return cls(engine, in_full, tuple(f"{name} {version(name)}" for name in _DECIDE))

    def __str__(self) -> str:
        return f"{self.engine}{'' if self.in_full else ' as float32'}, {', '.join(self.versions)}"


class NodeScorer:
    """Answers chunks of texts on a node, several in parallel, so that no step waits for another."""

    def load(self, model: Load) -> NodeReport:
        """Load the model; call it once, before anything else.

        Raises:
            BertCNNError: this node cannot load it.
        """
        self._predictor = model()
        return NodeReport.here(self._predictor)

    def answer(self, texts: list[str], probabilities: bool) -> Answers:
        """The answers to texts, optionally with all probabilities.

        Raises:
            BundleError: the engine failed, or its output is not finite.
        """
        answers = self._predictor.answer(texts)
        if probabilities:
            return answers
        return replace(answers, probabilities=answers.probabilities[:, :0])
