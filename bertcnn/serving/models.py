"""The models of a service: loaded, warmed up, and replaced while the service answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from bertcnn.bundle import Decisions, local_folder, read_bundle
from bertcnn.errors import BundleError, one_line
from bertcnn.inference import (
    Prediction,
    Predictor,
    ServedEngine,
    StreamingEngine,
    load,
    reason,
    usable_cores,
)
from bertcnn.serving.problems import RequestError

Precision = float | str | None  # required precision of automatic answers, as in `load`

_VERSION: Final = 12  # characters of a model's id
_PRECISIONS: Final = 64  # most precisions with cached decisions
_MOST_STREAMS: Final = 8  # more would wait for Python, which prepares one batch at a time


def answering_streams() -> int:
    """The number of batches computed at the same time: one per core, at most eight."""
    return min(usable_cores(), _MOST_STREAMS)


class ServedModel:
    """A model ready for concurrent use by several threads; `name` is its name in requests.

    Attributes:
        bundle_id: the model's id.
        version: the first characters of the id.
        longest: maximum tokens of a text.
    """

    def __init__(self, name: str, place: str, predictor: Predictor, engine: ServedEngine) -> None:
        self.name, self.place, self.predictor = name, place, predictor
        self._engine = predictor.engine = engine
        self.bundle_id = predictor.bundle.bundle_id
        self.version = self.bundle_id[:_VERSION]
        self.longest = predictor.bundle.config.tokenizer.max_tokens
        self._decisions: dict[float | str, Decisions] = {}

    def decisions_for(self, auto_precision: Precision) -> Decisions | None:
        """The decisions at a precision, None for the model's own; SettingsError if invalid."""
        if auto_precision is None:
            return None
        decisions = self._decisions.get(auto_precision)
        if decisions is None:
            decisions = self.predictor.decisions_for(auto_precision)
            if len(self._decisions) >= _PRECISIONS:
                self._decisions = {}
            self._decisions[auto_precision] = decisions
        return decisions

    def warm(self) -> None:
        """Compute every batch shape once while serving; RuntimeError if OpenVINO cannot."""
        self._engine.warm_by_turns()

    def answer(self, texts: Sequence[str], precisions: Sequence[Precision]) -> list[Prediction]:
        """Answer each text at its required precision, in as few batches as possible."""
        encoded = self.predictor.encode(texts)
        output = self.predictor.run(encoded)
        distinct = dict.fromkeys(precisions)
        by_precision = {
            precision: self.predictor.predictions(
                texts,
                self.predictor.answer_from(texts, encoded, output, self.decisions_for(precision)),
            )
            for precision in distinct
        }
        return [by_precision[precision][row] for row, precision in enumerate(precisions)]


def load_model(name: str, place: str, *, warm: bool = True) -> ServedModel:
    """Verify a model at a folder or URL, load it, and compute every batch shape once.

    Without `warm`, only one shape is computed; see `ServedModel.warm`.

    Raises:
        BundleError: it is not a model, was changed after saving, or cannot be computed.
        SettingsError: the place is an unusable URL.
    """
    folder = local_folder(place)
    whole = read_bundle(folder)  # includes the weights, which the compiled engine does not need
    predictor = load(folder, streams=answering_streams())
    if predictor.bundle.bundle_id != whole.bundle_id:
        raise BundleError(
            f"another model was saved in {place} meanwhile",
            expected="a model that stays as it is while it is loaded",
            fix="load it again",
        )
    if not isinstance(
        predictor.engine, StreamingEngine
    ):  # pragma: no cover - `load` gives no other
        raise TypeError(type(predictor.engine).__name__)
    engine = ServedEngine(
        predictor.engine,
        predictor.bundle.vocabulary.index("[PAD]"),
        predictor.bundle.config.tokenizer.max_tokens,
    )
    try:
        if warm:
            engine.warm()
        else:
            engine.try_out()
    except RuntimeError as error:
        raise BundleError(
            f"the model {place} cannot be computed ({reason(error)})",
            expected="a model whose weights are as they were trained, and memory for it",
            fix="get the model again, or train it again",
        ) from None
    return ServedModel(name, place, predictor, engine)


class Models:
    """The models by name, the default first; each can be replaced while it or others answer.

    `on_load` is called with each new model and the version that it replaces.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        on_load: Callable[[ServedModel, str | None], None],
    ) -> None:
        self._models = {model.name: model for model in models}
        self._default = models[0].name
        self._loading = threading.Lock()  # one at a time: loading takes all cores
        self._on_load = on_load
        for model in models:
            on_load(model, None)

    @property
    def all(self) -> list[ServedModel]:
        """All models, the default one first."""
        return list(self._models.values())

    def get(self, name: str | None = None, version: str | None = None) -> ServedModel:
        """A model, by default the first; RequestError for an unknown name or another version."""
        name = self._default if name is None else name
        if name not in self._models:
            raise RequestError(
                404,
                f"the model {one_line(name)}",
                expected=f"one of {one_line(', '.join(self._models), 200)}",
                fix="choose one of them",
            )
        model = self._models[name]
        if version is not None and version not in (model.version, model.bundle_id):
            raise RequestError(
                404,
                f"version {one_line(version)} of the model {one_line(name)}",
                expected=f"the version that serves: {model.version}",
                fix="leave the version out, or name this one",
            )
        return model

    def load(
        self, name: str, place: str | None = None, *, other_labels: bool = False
    ) -> ServedModel:
        """Load a model by name and replace the old one; on failure, the old one stays.

        By default, `place` is the old one's. `other_labels` allows labels that the old model lacks.

        Raises:
            RequestError: an unknown name, or other labels.
            BundleError, SettingsError: as `load_model`.
        """
        with self._loading:
            old = self.get(name)
            new = load_model(name, old.place if place is None else place)
            if not other_labels:
                _check_labels(old, new)
            self._models[name] = new
        self._on_load(new, old.version)
        return new


def _check_labels(old: ServedModel, new: ServedModel) -> None:
    """Raise RequestError if the new model has other labels, which clients may not know."""
    before, after = old.predictor, new.predictor
    if before.multi_label != after.multi_label:
        kinds = {False: "one label per text", True: "several labels per text"}
        difference, expected = kinds[after.multi_label], kinds[before.multi_label]
    else:
        gone = sorted(set(before.labels) - set(after.labels))
        come = sorted(set(after.labels) - set(before.labels))
        if not gone and not come:
            return
        changes = [f"without {one_line(name)}" for name in gone[:2]]
        changes += [f"with the new label {one_line(name)}" for name in come[:2]]
        difference, expected = ", ".join(changes), f"the {len(before.labels)} labels that it has"
    raise RequestError(
        409,
        f"a model {difference} for {one_line(old.name)}",
        expected=expected,
        fix='load it with {"parameters": {"other_labels": true}} once all clients know them',
    )
