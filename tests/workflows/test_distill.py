"""Distillation: a smaller model learns a larger model's answers."""

from dataclasses import replace

import numpy as np
import pytest

import bertcnn
from bertcnn import BertCNNClassifier
from bertcnn.bundle.bundle import read_bundle
from bertcnn.data.batches import pad
from bertcnn.errors import LabelError, OutputError, SettingsError
from bertcnn.models.classifier import CnnHead
from bertcnn.models.forward import Forward
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FULL, HeadSettings
from bertcnn.training.distillation import Student
from bertcnn.training.features import TokenizedRows
from bertcnn.training.recipes import train
from bertcnn.training.training_data import RunOptions, TrainingData
from bertcnn.workflows.distill import distill_csv
from tests import tiny
from tests.learnable import new_encoder
from tests.test_several_labels import pairs
from tests.tickets import WORDS, as_csv, tickets

TRAINING = {"epochs": 3, "learning_rate": 1e-3, "batch_size": 16}
MORE = [f"{one} {other}" for words in WORDS.values() for one in words for other in words]


@pytest.fixture(scope="module")
def teacher(encoder_folder):
    return tiny.saved_with_scope(encoder_folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distill")
    (folder / "tickets.csv").write_text(as_csv(*tickets(24)))
    (folder / "more.csv").write_text("text\n" + "".join(f"{text}\n" for text in MORE))
    return folder


@pytest.fixture(scope="module")
def small(teacher, files):
    """A student's folder; do not write to it."""
    report = distill_csv(
        teacher,
        files / "tickets.csv",
        files / "small",
        layers=1,
        unlabelled=files / "more.csv",
        training=TRAINING,
    )
    assert report.recipe == "full"
    return files / "small"


def test_the_student_starts_as_the_teacher_without_its_first_layer(teacher):
    student = Student.of(teacher, 1, seed=0)
    large, small = read_bundle(teacher).tensors, extract(student.start.encoder.weights)
    assert student.start.encoder.settings.layers == 1
    for name, value in small.items():
        if not name.startswith("pooler"):
            np.testing.assert_array_equal(value, large[name.replace("layer_0", "layer_1")])
    assert set(student.head_weights) == {name for name in large if "/" in name} - {
        name for name in large if name.startswith(("layer_", "embeddings/"))
    }
    for name, value in student.head_weights.items():
        np.testing.assert_array_equal(value, large[name])


def test_labelled_rows_use_half_teacher_targets_and_others_only_those(teacher):
    predictor = bertcnn.load(teacher)
    student = Student.of(teacher, 1, seed=0)
    texts, others = ["a router", "an invoice"], ["a password", "my modem led"]
    token_ids = student.start.tokenizer.encode(texts).token_ids
    lesson = student.lesson(TokenizedRows(token_ids, np.array([2, 0])), texts, others)
    taught, answers = predictor.predict_proba(texts), predictor.predict_proba(others)
    assert lesson.soft.dtype == np.float32
    np.testing.assert_allclose(lesson.soft[:2], (np.eye(3)[[2, 0]] + taught) / 2, atol=1e-6)
    np.testing.assert_allclose(lesson.soft[2:], answers, atol=1e-6)
    assert lesson.labels.tolist() == [2, 0, *answers.argmax(axis=1)]
    assert lesson.multi_hot is None
    expected = student.start.tokenizer.encode([*texts, *others]).token_ids
    assert [row.tolist() for row in lesson.token_ids] == [row.tolist() for row in expected]
    alone = student.lesson(TokenizedRows(token_ids, np.array([2, 0])), texts, [])
    np.testing.assert_array_equal(alone.soft, lesson.soft[:2])


def test_the_student_answers_as_the_teacher_does_with_fewer_layers(teacher, small):
    large, made = bertcnn.load(teacher), bertcnn.load(small)
    config = made.bundle.config
    assert (config.encoder.layers, config.head) == (1, large.bundle.config.head)
    assert config.encoder_name.endswith(", 1 of 2 layers")
    assert (config.text_columns, config.label_column) == (("text",), "label")
    assert made.labels == large.labels
    assert made.bundle.metrics["rows"] == 6  # of the labelled rows
    assert "rows without a label" in (small / "MODEL_CARD.md").read_text()
    same = made.predict(MORE) == large.predict(MORE)
    assert same.mean() > 0.9
    (answer,) = made.classify(["my modem led is dark"])
    assert answer.because


def test_full_starts_from_a_given_head_and_learns_soft_targets(make_rows):
    rows, valid = make_rows(48, 0), make_rows(24, 1)
    other_way = np.eye(3, dtype=np.float32)[(rows.labels + 1) % 3]
    settings = FULL.model_copy(update={"epochs": 8, "batch_size": 8, "learning_rate": 1e-2})
    shape = HeadSettings(window_sizes=(2,), filters=8)
    first = extract(CnnHead(16, 3, shape, seed=9, name="head").weights)
    model, _ = train(
        new_encoder(),
        TrainingData(replace(rows, soft=other_way), replace(valid, labels=(valid.labels + 1) % 3)),
        shape,
        "full",
        settings,
        RunOptions(0, Silent(), head_weights=first),
    )
    forward = Forward(model, (24,))
    logits = forward.rows(lambda plan: pad(valid.token_ids, plan).inputs(), valid.lengths)
    assert np.mean(logits.argmax(axis=1) == (valid.labels + 1) % 3) > 0.9
    still, _ = train(
        new_encoder(),
        TrainingData(rows, valid),
        shape,
        "full",
        settings.model_copy(update={"epochs": 1, "learning_rate": 1e-12}),
        RunOptions(0, Silent(), head_weights=first),
    )
    for name, value in extract(still.head.weights).items():
        np.testing.assert_allclose(value, first[name], atol=1e-6)


def test_several_labels_are_distilled_as_probabilities(encoder_folder, tmp_path):
    texts, labels = pairs()
    tiny.quick(encoder_folder).fit(texts, labels).save(tmp_path / "large")
    large = bertcnn.load(tmp_path / "large")
    made = BertCNNClassifier(teacher=tmp_path / "large", layers=1, training=TRAINING)
    made.fit(texts, labels, unlabelled=MORE)
    assert made._predictor.multi_label
    lesson = Student.of(tmp_path / "large", 1, seed=0).lesson(
        TokenizedRows([], np.empty(0, np.int64), np.empty((0, 3), bool)), [], MORE
    )
    np.testing.assert_array_equal(lesson.multi_hot, large.multi_hot(lesson.soft))
    close = np.abs(made.predict_proba(MORE) - large.predict_proba(MORE)).mean()
    assert close < 0.2
    with pytest.raises(LabelError, match="rows with one label; expected rows with several labels"):
        made.fit(*tickets())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 2}, "a student of 2 layers; expected 1 to 1, since the teacher has 2"),
        ({"layers": 0}, "a student of 0 layers"),
        ({"layers": 1.5}, "layers '1.5'; expected a whole number"),
        ({"layers": 1, "training": {"refit": True}}, "a refit on all rows"),
        ({"layers": 1, "recipe": "frozen"}, "recipe 'frozen'; expected the recipe 'full'"),
    ],
)
def test_impossible_requests_are_refused_before_any_work(teacher, changes, message):
    with pytest.raises(SettingsError, match=message):
        BertCNNClassifier(teacher=teacher, **changes).fit(*tickets())


def test_labels_other_than_the_teachers_are_refused_and_nothing_is_written(
    teacher, files, tmp_path
):
    texts, labels = tickets(10)
    other = ["sales" if label == "billing" else label for label in labels]
    (tmp_path / "other.csv").write_text(as_csv(texts, other))
    message = r"labels are not the teacher's \('billing, sales'\); expected rows with each of its 3"
    with pytest.raises(LabelError, match=message):
        distill_csv(teacher, tmp_path / "other.csv", tmp_path / "small", layers=1)
    assert not (tmp_path / "small").exists()
    with pytest.raises(OutputError, match="holds a saved model already"):
        distill_csv(teacher, files / "tickets.csv", teacher, layers=1)
