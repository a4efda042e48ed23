"""Files to which each task adds its columns: what is special to a task beside `add_columns`."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from bertcnn.bundle.bundle import write_bundle
from bertcnn.errors import BundleError, ColumnError
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.storage.manifest import MANIFEST
from bertcnn.tasks.question_answering import extract_csv
from bertcnn.tasks.summaries import summarise_csv
from bertcnn.tasks.token_labels import extract_spans
from bertcnn.tasks.translation import translate_csv
from tests.failpoints import tiny_bundle
from tests.listener import Listener, interrupt
from tests.scoring.file_runs import names, resumed_rows
from tests.tasks.kinds import ANSWERER, LABELLER, SUMMARISER, TRANSLATOR, Kind, saved


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A task that adds columns to a file.

    Attributes:
        kind: of its model.
        add: adds the columns.
        columns: their names.
        cells: maps a text and its answer to the new cells.
        chunk: rows that are answered and kept at a time.
        changed: options that change the answers.
        is_prefixed: whether a column that the input has already gets a prefix.
    """

    kind: Kind
    add: Callable[..., Any]
    columns: Sequence[str]
    cells: Callable[[str, Any], Sequence[str]]
    chunk: int = 1024
    changed: dict[str, Any] = field(default_factory=dict)
    is_prefixed: bool = False


def answer_cells(text, answer):
    place = f"{answer.start}:{answer.end}" if answer.text else ""
    return [answer.text, f"{answer.confidence:.6f}" if text.strip() else "", place]


def span_cells(text, spans):
    objects = [
        {
            "start": one.start,
            "end": one.end,
            "label": one.label,
            "text": text[one.start : one.end],
            "probability": round(one.probability, 6),
        }
        for one in spans
    ]
    return [json.dumps(objects)]


TASKS = {
    task.kind.name: task
    for task in (
        Task(
            kind=ANSWERER,
            add=partial(extract_csv, fields={"thing": "what?"}),
            columns=("thing", "thing_confidence", "thing_place"),
            cells=answer_cells,
            changed={"fields": {"thing": "is it?"}},
        ),
        Task(kind=LABELLER, add=extract_spans, columns=("spans",), cells=span_cells),
        *(
            Task(
                kind=kind,
                add=add,
                columns=(column,),
                cells=lambda _, written: [written.text],
                chunk=256,
                changed={"beam": 1},
                is_prefixed=True,
            )
            for kind, add, column in (
                (TRANSLATOR, translate_csv, "translation"),
                (SUMMARISER, summarise_csv, "summary"),
            )
        ),
    )
}


@pytest.fixture(params=TASKS.values(), ids=TASKS, scope="module")
def task(request):
    return request.param


@pytest.fixture(scope="module")
def folder(task, shallow_encoder_folder):
    return saved(task.kind, shallow_encoder_folder)


@pytest.fixture(scope="module")
def model(task, folder):
    return task.kind.model.load(folder)


def write_texts(path, texts, columns=("id", "text", "note")):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows((row, text, f"n{row % 3}") for row, text in enumerate(texts))
    return path


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_rows_and_columns_are_kept_and_the_answers_follow(task, model, tmp_path):
    texts = [*task.kind.texts[:20], "", " ", task.kind.texts[0]]
    source = write_texts(tmp_path / "in.csv", texts)
    report = task.add(model, source, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["id", "text", "note", *task.columns]
    given = [(row["id"], row["text"], row["note"]) for row in rows]
    assert given == [(str(row), text, f"n{row % 3}") for row, text in enumerate(texts)]
    answers = task.kind.answers(model, list(dict.fromkeys(texts)))
    expected = {
        text: list(task.cells(text, answer))
        for text, answer in zip(dict.fromkeys(texts), answers, strict=True)
    }
    cells = [[row[name] for name in task.columns] for row in rows]
    assert cells == [expected[text] for text in texts]
    assert len({tuple(row) for row in cells}) > 2
    assert (report.rows, report.rejected, report.columns) == (23, 0, task.columns)
    assert names(tmp_path) == ["in.csv", "out.csv"]


def test_a_folder_gives_the_same_file_as_a_loaded_model(task, folder, model, tmp_path):
    source = write_texts(tmp_path / "in.csv", task.kind.texts[:9])
    for name, given in (("folder.csv", str(folder)), ("model.csv", model)):
        task.add(given, str(source), str(tmp_path / name))
    assert (tmp_path / "folder.csv").read_bytes() == (tmp_path / "model.csv").read_bytes()


def test_other_settings_start_over_and_are_named(task, model, tmp_path):
    if not task.changed:
        pytest.skip("it has no settings")
    texts = [task.kind.texts[row % 4] for row in range(task.chunk + 9)]
    source, target = write_texts(tmp_path / "in.csv", texts), tmp_path / "out.csv"
    task.add(model, source, tmp_path / "whole.csv")
    with pytest.raises(ScoringInterrupted):
        task.add(model, source, target, progress=Listener(interrupt), **task.changed)
    listener = Listener()
    task.add(model, source, target, progress=listener)
    assert listener.has("the settings changed")
    assert resumed_rows(listener) == 0
    assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_column_that_the_input_has_is_refused_or_gets_a_prefix(task, model, tmp_path):
    for taken in task.columns:
        source = write_texts(tmp_path / "in.csv", task.kind.texts[:3], ("id", "text", taken))
        listener = Listener()
        if task.is_prefixed:
            report = task.add(model, source, tmp_path / "out.csv", progress=listener)
            assert report.columns == (f"bertcnn_{taken}",)
            assert list(rows_of(tmp_path / "out.csv")[0])[2:] == [taken, f"bertcnn_{taken}"]
            assert listener.has(f"ours is called 'bertcnn_{taken}'")
        else:
            message = rf"a new column '{taken}', which '.*in\.csv' .* has already; expected"
            with pytest.raises(ColumnError, match=message) as caught:
                task.add(model, source, tmp_path / "out.csv")
            assert "\n" not in str(caught.value)
            assert names(tmp_path) == ["in.csv"]


def test_a_folder_of_another_kind_is_refused(task, tmp_path):
    source = write_texts(tmp_path / "in.csv", task.kind.texts[:3])
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    message = f"holds a 'bertcnn bundle'; expected a bertcnn {task.kind.name}"
    for place, told in ((tmp_path / "classifier", message), (tmp_path, MANIFEST)):
        with pytest.raises(BundleError, match=told):
            task.add(place, source, tmp_path / "out.csv")
    assert names(tmp_path) == ["classifier", "in.csv"]
