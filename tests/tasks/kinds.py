"""The kinds of task models, with settings and examples that a tiny model learns in seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bertcnn.tasks.language_model import LanguageModel
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.question_answering import QuestionAnswerer
from bertcnn.tasks.summaries import Summariser
from bertcnn.tasks.token_labels import TokenLabeller
from bertcnn.tasks.translation import Translator
from tests.tasks import small_pairs, small_questions, small_spans, small_summaries, small_texts


@dataclass(frozen=True, eq=False, kw_only=True)
class Kind:
    """A kind of task model.

    Attributes:
        name: in messages.
        model: the class.
        settings: of a small model.
        training: of a few epochs.
        examples: the arguments of `fit`.
        texts: to be answered.
        ask: the method that answers them, and its first arguments.
        parts: maps an answer to what must be equal and to the numbers that may differ a little.
        tolerance: by which these numbers may differ.
        epochs: after which answers differ between texts.
        stop: batches after which a training is interrupted, in its third epoch.
        has_encoder: whether it fine-tunes an encoder, the first argument of the class.
        needs_keras: also after training.
    """

    name: str
    model: type[TaskModel[Any, Any]]
    settings: dict[str, Any]
    training: dict[str, Any]
    examples: Sequence[Any]
    texts: list[str]
    ask: tuple[str, ...]
    parts: Callable[[Any], tuple[Any, Sequence[float]]] = field(
        default=lambda answer: (answer.text, [answer.score])
    )
    tolerance: float = 1e-4
    epochs: int = 4
    stop: int = 9
    has_encoder: bool = True
    needs_keras: bool = True

    def new(self, encoder: Path, **options: Any) -> TaskModel[Any, Any]:
        """A small model that is not trained."""
        encoders = (encoder,) if self.has_encoder else ()
        return self.model(*encoders, **{"training": self.training, **self.settings, **options})

    def fitted(self, encoder: Path, savepoints: Path | None = None, **options: Any) -> Any:
        """A small model after a few epochs."""
        return self.new(encoder, **options).fit(*self.examples, savepoints=savepoints)

    def answers(self, model: TaskModel[Any, Any], texts: Sequence[str]) -> Any:
        """The model's answers to texts."""
        method, *first = self.ask
        return getattr(model, method)(*first, texts)


ANSWERER = Kind(
    name="question answerer",
    model=QuestionAnswerer,
    settings={"questions": small_questions.SMALL},
    training=small_questions.QUICK,
    examples=(small_questions.LEARNED,),
    texts=[one.context for one in small_questions.OTHERS],
    ask=("answer", "what?"),
    parts=lambda answer: ((answer.text, answer.start), [answer.confidence]),
    tolerance=0.05,  # in int8
    stop=30,
    needs_keras=False,
)
LABELLER = Kind(
    name="token labeller",
    model=TokenLabeller,
    settings={"windows": small_spans.SMALL},
    training=small_spans.QUICK,
    examples=(small_spans.LEARNED,),
    texts=[one.text for one in small_spans.OTHERS],
    ask=("spans",),
    parts=lambda spans: (
        [(one.start, one.end, one.label) for one in spans],
        [one.probability for one in spans],
    ),
    tolerance=0.05,
    stop=30,
    needs_keras=False,
)
TRANSLATOR = Kind(
    name="translator",
    model=Translator,
    settings={"model": small_pairs.SHORT},
    training={**small_pairs.QUICK, "epochs": 4},
    examples=small_pairs.small_pairs(),
    texts=small_pairs.small_pairs()[0],
    ask=("translate",),
    epochs=60,
    has_encoder=False,
)
SUMMARISER = Kind(
    name="summariser",
    model=Summariser,
    settings={"model": small_summaries.SHORT},
    training={**small_summaries.QUICK, "epochs": 4, "dropout": 0.1},
    examples=small_summaries.small_summaries(),
    texts=small_summaries.small_summaries()[0],
    ask=("summarise",),
    epochs=20,
)
LANGUAGE_MODEL = Kind(
    name="language model",
    model=LanguageModel,
    settings={"model": small_texts.NARROW},
    training={**small_texts.BRIEF, "epochs": 4},
    examples=(small_texts.small_texts(),),
    texts=small_texts.small_texts(),
    ask=("perplexity",),
    has_encoder=False,
)
KINDS = {kind.name: kind for kind in (ANSWERER, LABELLER, TRANSLATOR, SUMMARISER, LANGUAGE_MODEL)}


@cache
def saved(kind: Kind, encoder: Path) -> Path:
    """The folder of a model whose answers differ, saved once; do not write to it."""
    folder = encoder.with_name(kind.name.replace(" ", "-"))
    kind.fitted(encoder, training={**kind.training, "epochs": kind.epochs}).save(folder)
    return folder
