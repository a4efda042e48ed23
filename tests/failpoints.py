"""Ends a process at its n-th I/O step, like kill -9 or a power failure.

Run by the crash tests.

    python failpoints.py SCENARIO FOLDER

Each scenario repeats its work in forked processes that die one step later each time, until one
finishes. Prints one JSON list with the state found after each death.
"""

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bertcnn.bundle.bundle import Bundle, read_bundle, write_bundle
from bertcnn.bundle.schemas import BundleConfig, Calibration, Decisions, HeldOut
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.errors import BertCNNError
from bertcnn.pretraining.corpus import open_corpus
from bertcnn.settings import EncoderSettings, HeadSettings, TokenizerSettings
from bertcnn.shapes import classifier_shapes
from bertcnn.text.wordpiece import WordPieceTokenizer

AUDITED = (
    "open",
    "os.",
    "shutil.",
    "fcntl.",
    "bertcnn.",
)  # audit events with these prefixes access the disk
NOT_AUDITED = ("write", "fsync", "close")
DIED = 77  # exit status
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "router", "##s")


def tiny_bundle(fill: float = 0.5, size: int = 3) -> Bundle:
    """A bundle of a few hundred bytes a member.

    The weights are a little larger, and grow with `size`.
    """
    encoder = EncoderSettings(
        vocabulary_size=len(VOCABULARY),
        width=4,
        layers=1,
        heads=2,
        feed_forward_width=8,
        max_positions=16,
    )
    head = HeadSettings(window_sizes=(2,), filters=size)
    return Bundle(
        config=BundleConfig(
            encoder=encoder,
            encoder_name="tiny",
            head=head,
            tokenizer=TokenizerSettings(max_tokens=16, head_tokens=4),
            text_columns=("text",),
            label_column="label",
            recipe="frozen",
            seed=7,
            versions={"bertcnn": "0.1.0", "python": "3.11"},
            created_at="2026-11-21T04:00:00+00:00",
        ),
        labels=("billing", "hardware"),
        vocabulary=VOCABULARY,
        tensors={
            name: np.full(shape, fill, np.float32)
            for name, shape in classifier_shapes(encoder, head, 2).items()
        },
        calibration=Calibration(temperature=1.25, fitted_on_rows=40),
        metrics={"accuracy": 0.9, "labels": ["billing"]},
        model_card="# Größe\n",
        scope=OutOfScopeDetector(
            np.eye(2, dtype=np.float32),
            np.eye(3, 4, dtype=np.float32),
            np.ones(5, np.float32),
            1.5,
            np.array([4], np.int32),
            np.array([[0.5, -0.5]], np.float32),
            background=np.ones(4, np.float32),
            auto_limit=1.25,
            centroid_labels=np.array([0, 1, 1], np.int32),
        ),
        report="<!DOCTYPE html><p>Größe</p>\n",
        decisions=Decisions(
            thresholds=(0.5, None),
            held_out=HeldOut(confidence=(0.75,), predicted=(1,), right=(True,)),
        ),
    )


def die_at(step: int) -> None:
    """Count the calls that access the disk from here on, and die at the `step`-th.

    That call does not happen, or is half done if it is a write. Python reports every call that
    opens, renames, moves or removes a file to an audit hook.
    """
    left = step

    def is_last() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def counted(real: Callable, name: str, *arguments: object) -> object:
        if is_last():
            if name == "write":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            os._exit(DIED)
        return real(*arguments)

    def heard(event: str, _: tuple) -> None:
        if event.startswith(AUDITED) and is_last():
            os._exit(DIED)

    for name in NOT_AUDITED:
        setattr(os, name, functools.partial(counted, getattr(os, name), name))
    sys.addaudithook(heard)


def deaths(work: Callable[[], object], prepare: Callable[[], None]) -> Iterator[int]:
    """Run `work` in a fork of this process, dying at step 1, 2, 3 ...; yields after each death."""
    step = 0
    while True:
        step += 1
        prepare()
        child = os.fork()
        if child == 0:
            die_at(step)
            work()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        if status != DIED:
            raise RuntimeError(f"step {step} ended with {status}")
        yield step


def found(target: Path) -> str:
    """The model a reader gets from `target`: "old", "new", or the start of the error message."""
    try:
        return {0.25: "old", 0.75: "new"}[float(read_bundle(target).tensors["logits/bias"][0])]
    except BertCNNError as error:
        return str(error).split(";")[0].replace(str(target), "TARGET")


def names(place: Path) -> list[str]:
    """The names in a folder."""
    return sorted(path.name for path in place.iterdir())


def save(place: Path, over: bool) -> list[dict[str, object]]:
    """Deaths during a first save, or during one that overwrites an old model."""
    target, outcomes = place / "model", []

    def prepare() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        if over:
            write_bundle(tiny_bundle(0.25), target)

    for step in deaths(lambda: write_bundle(tiny_bundle(0.75), target, overwrite=over), prepare):
        first = found(target)
        write_bundle(tiny_bundle(0.75), target, overwrite=True)
        outcomes.append(
            {"step": step, "found": first, "after": found(target), "left": names(place)}
        )
    return outcomes


def small_disk(place: Path) -> list[dict[str, object]]:
    """Saves that do not fit: no file can grow past 64 KiB."""
    import resource

    target = place / "model"
    write_bundle(tiny_bundle(0.25), target)
    sys.dont_write_bytecode = True  # Python would keep truncated bytecode for ever
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    outcomes = []
    for name in ("model", "other"):
        try:
            write_bundle(tiny_bundle(0.75, size=1 << 16), place / name, overwrite=True)
        except BertCNNError as error:
            outcomes.append(
                {
                    "error": f"{type(error).__name__}: {error}",
                    "found": found(target),
                    "left": names(place),
                }
            )
    return outcomes


def no_rights(place: Path) -> list[dict[str, object]]:
    """A folder that can be entered but not written, and one that cannot be entered."""
    place.mkdir()
    write_bundle(tiny_bundle(0.25), place / "closed" / "model")
    (place / "closed").chmod(0o000)
    place.chmod(0o555)
    if os.geteuid() == 0:
        os.setuid(65534)
    outcomes = []
    for act in (
        lambda: write_bundle(tiny_bundle(), place / "model"),
        lambda: write_bundle(tiny_bundle(), place / "closed" / "model", overwrite=True),
        lambda: read_bundle(place / "closed" / "model"),
    ):
        try:
            act()
        except BertCNNError as error:
            outcomes.append({"error": f"{type(error).__name__}: {error}"})
    return outcomes


def corpus_of(place: Path, sentences: int = 40) -> list[int]:
    """The tokens of the corpus in `place`, which is built if it is missing."""
    texts = place / "texts.txt"
    if not texts.exists():
        place.mkdir(exist_ok=True)
        texts.write_text("router routers. router\n\n" * (sentences // 2))
    tokenizer = WordPieceTokenizer(
        [*VOCABULARY, "[MASK]"], TokenizerSettings(max_tokens=16, head_tokens=4)
    )
    return open_corpus([texts], tokenizer, cache=place / "cache").tokens.tolist()


def corpus(place: Path) -> list[dict[str, object]]:
    """Deaths during the tokenisation of a corpus."""
    whole, outcomes = corpus_of(place), []
    for step in deaths(
        lambda: corpus_of(place), lambda: shutil.rmtree(place / "cache", ignore_errors=True)
    ):
        before = (
            [name for name in names(place / "cache" / "corpora") if name[0] != "."]
            if (place / "cache" / "corpora").exists()
            else []
        )
        outcomes.append(
            {
                "step": step,
                "found": len(before),
                "equal": corpus_of(place) == whole,
                "left": names(place / "cache" / "corpora"),
            }
        )
    return outcomes


def full_corpus(place: Path) -> list[dict[str, object]]:
    """A corpus that does not fit: no file can grow past 64 KiB."""
    import resource

    place.mkdir()
    (place / "texts.txt").write_text("router routers. router\n\n" * 40_000)
    sys.dont_write_bytecode = True  # Python would keep truncated bytecode for ever
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    try:
        corpus_of(place)
    except BertCNNError as error:
        return [
            {
                "error": f"{type(error).__name__}: {error}",
                "left": names(place / "cache" / "corpora"),
            }
        ]
    return []


SCENARIOS = {
    "first": lambda place: save(place, over=False),
    "over": lambda place: save(place, over=True),
    "full": small_disk,
    "closed": no_rights,
    "corpus": corpus,
    "corpus-full": full_corpus,
}

if __name__ == "__main__":
    scenario, folder = sys.argv[1:3]
    if scenario.endswith("-two-renames"):
        sys.platform = "darwin"  # only on Linux are two folders exchanged in one step
        scenario = scenario.removesuffix("-two-renames")
    sys.stdout.write(json.dumps(SCENARIOS[scenario](Path(folder))))
