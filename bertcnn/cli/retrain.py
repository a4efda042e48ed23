"""`bertcnn retrain`: train the next model from the old rows and people's decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bertcnn.cli.console import command_line, print_message, show, summary
from bertcnn.cli.options import Encoder, Label, Seed, Summary, Text, argument, grouped, option
from bertcnn.cli.resumable import resumes
from bertcnn.cli.review import Name, Store, opened, person
from bertcnn.cli.startup import load_keras


@dataclass(frozen=True, kw_only=True)
class RowFlags:
    """The rows, as `bertcnn.review.retrain` names them."""

    text: Text = None
    label: Label = None
    check: Annotated[
        bool, option("Check the rows first, as `bertcnn check` does.", "--check/--no-check")
    ] = True


@dataclass(frozen=True, kw_only=True)
class ClassifierFlags:
    """How the model is trained, as `BertCNNClassifier` names it."""

    recipe: Annotated[str, option("auto, few-shot, frozen or full, as for train.")] = "auto"
    encoder: Encoder = "minilm-l6"
    seed: Seed = 0


@grouped
def retrain(
    store: Store,
    out: Annotated[Path, option("Folder to save the new model in.")],
    data: Annotated[
        Path | None,
        argument(
            "Labelled file that the serving model was trained on.",
            default="decisions only",
            metavar="DATA",
        ),
    ] = None,
    *,
    rows: RowFlags,
    model: ClassifierFlags,
    name: Name = None,
    as_json: Summary = False,
) -> None:
    """Train on the old rows and people's decisions; compare with the serving model.

    A fifth of the decided texts and all audits are never learned.
    Both models are compared on them.
    The new model does not serve before somebody promotes it.
    """
    from bertcnn.bundle import check_bundle_target, read_metrics
    from bertcnn.cli.progress import show_progress

    check_bundle_target(out, overwrite=False)
    opened_store = opened(store)
    load_keras()
    from bertcnn.classifier import BertCNNClassifier
    from bertcnn.evaluation import saved_warning
    from bertcnn.review import retrain as run

    with show_progress() as progress, resumes(out):
        classifier = BertCNNClassifier(**vars(model), progress=progress)
        done = run(
            opened_store, data, out, person(name), classifier, **vars(rows), progress=progress
        )
    if as_json:
        summary(done)
    print_message(f"Model {done.model[:12]} is in {out} and in the store.")
    if warning := saved_warning(read_metrics(out)):
        print_message(f"WARNING: {warning}")
    if done.comparison is None:
        return
    say = print_message if as_json else show
    say(f"{done.comparison['verdict']}: {done.comparison['sentences']}")
    print_message(f"Next: {command_line('models', 'promote', done.model[:12], '--store', store)}")
