"""The scikit-learn estimator."""

import copy
import io
import pickle

import joblib
import keras
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import bertcnn
from bertcnn import BertCNNClassifier, load
from bertcnn.cli.progress import PlainProgress, RichProgress
from bertcnn.encoders.checkpoint import read_checkpoint
from bertcnn.errors import LabelError, SettingsError
from bertcnn.settings import DECISIONS, HeadSettings
from tests.tickets import tickets

QUICK = {
    "epochs": 20,
    "fewest_steps": 0,
    "compiled_shapes": 1,
    "batch_size": 16,
    "learning_rate": 0.01,
    "patience": 20,
    "folds": 0,
}


class Notes:
    """Keeps the notes."""

    def __init__(self):
        self.notes, self.stages = [], []

    def stage(self, name, total, unit="rows"):  # noqa: ARG002
        self.stages.append(name)

    def advance(self, done, **figures):
        pass

    def note(self, message):
        self.notes.append(message)


def quick(encoder_folder, **changes):
    return BertCNNClassifier(
        encoder_folder,
        **{"recipe": "frozen", "training": QUICK, "head": HeadSettings(filters=16), **changes},
    )


@pytest.fixture(scope="module")
def fitted(encoder_folder):
    """Do not change it."""
    return quick(encoder_folder).fit(*tickets(), valid=tickets(18))  # 54 held-out rows


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    """The saved folder; do not write to it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    copy.copy(fitted).save(folder)  # the first save determines the decisions of later ones
    return folder


ONE_EPOCH_OF_FULL = {"recipe": "full", "training": {**QUICK, "epochs": 1}, "seed": np.int64(3)}


@pytest.fixture(scope="module")
def full(shallow_encoder_folder):
    return quick(shallow_encoder_folder, **ONE_EPOCH_OF_FULL).fit(*tickets(4))


def test_it_learns(fitted):
    texts, labels = tickets()
    assert fitted.score(texts, labels) > 0.9
    half = [label if row % 2 else " " for row, label in enumerate(labels)]
    weights = np.arange(len(texts)) + 1.0
    assert fitted.score(texts, half, weights) == fitted.score(
        texts[1::2], labels[1::2], weights[1::2]
    )  # blank ones do not count
    assert fitted.score(iter(texts), iter(labels)) == fitted.score(texts, labels)
    assert list(fitted.classes_) == ["billing", "hardware", "software"]


def test_probabilities_are_finite_and_sum_to_one(fitted):
    probabilities = fitted.predict_proba(
        ["router", "", "\ud83d\x00", "☃ 你好 مرحبا", "=1+1", "x" * 5000, "\u200b", "a\u0301" * 200]
    )
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)


def test_neighbours_and_order_change_nothing(fitted):
    texts = [*tickets()[0][:9], "a much longer text about the router and the bill and the app " * 3]
    together = fitted.predict_proba(texts)
    alone = np.concatenate([fitted.predict_proba([text]) for text in texts])
    backwards = fitted.predict_proba(texts[::-1])[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(together, backwards, atol=1e-6)


def test_saved_and_loaded_it_answers_the_same(fitted, saved):
    texts = tickets()[0]
    predictor, again = bertcnn.load(saved, engine="keras"), BertCNNClassifier.load(saved)
    np.testing.assert_array_equal(predictor.predict_proba(texts), fitted.predict_proba(texts))
    np.testing.assert_array_equal(
        again.predict_proba(texts), bertcnn.load(saved).predict_proba(texts)
    )
    assert list(again.predict(texts)) == list(fitted.predict(texts))


@pytest.mark.usefixtures("cpu_with_vnni")
def test_the_saved_decisions_rest_on_what_the_saved_engine_answers(fitted, tmp_path):
    classifier = copy.copy(fitted)
    for engine in ("keras", "openvino"):
        bundle_id = classifier.save(tmp_path / engine, engine=engine)
        predictor = bertcnn.load(tmp_path / engine, engine=engine)
        assert predictor.bundle.bundle_id == bundle_id
        bundle, texts = predictor.bundle, tickets(18)[0]
        answers = predictor.answer(texts)
        held_out = bundle.decisions.held_out
        assert bundle.scope
        assert held_out.out_of_scope == 1  # with 54 rows, the limit is just below the highest score
        assert held_out.doubtful == 1
        assert (answers.decisions == DECISIONS.index("review:out_of_scope")).sum() == 1
        near = np.abs(answers.confidence[:, None] - held_out.confidence)
        assert near.shape == (54, 52)
        assert near.min(axis=0).max() < 1e-5
        assert bundle.metrics["decisions"] == classifier.metrics_["decisions"]
        assert classifier.metrics_["decisions"]["rows"] == 54


def test_the_bundle_quotes_no_training_row(saved):
    for path in (path for path in saved.rglob("*") if path.is_file()):
        assert b"charged twice price" not in path.read_bytes()


def test_params_clone_and_unfitted_errors(encoder_folder):
    classifier = quick(encoder_folder, seed=7)
    assert clone(classifier).get_params() == classifier.get_params()
    for progress in (RichProgress(), PlainProgress()):
        assert clone(quick(encoder_folder, progress=progress)).progress is progress
    assert classifier.set_params(seed=8).seed == 8
    classifier.set_params(training__epochs=2, training__batch_size=4)
    assert {"epochs": 2, "batch_size": 4}.items() <= classifier.training.items()
    assert clone(classifier).training == classifier.training
    with pytest.raises(NotFittedError, match="call fit"):
        classifier.predict(["router"])


@pytest.mark.parametrize(
    "use", [pickle.dumps, copy.deepcopy, lambda model: joblib.dump(model, io.BytesIO())]
)
def test_a_fitted_or_loaded_one_is_saved_not_pickled(fitted, saved, use):
    for model, what, fix in (
        (fitted, "classifier", r"save it with \.save\(folder\), and load it with"),
        (BertCNNClassifier.load(saved), "classifier", r"save it with \.save\(folder\)"),
        (load(saved), "model", r"keep the folder that \.save\(folder\) wrote, and load that"),
    ):
        told = rf"cannot pickle, joblib\.dump or deepcopy a {what}, .*What to do: {fix}"
        with pytest.raises(SettingsError, match=told) as refusal:
            use(model)
        assert "\n" not in str(refusal.value)


def test_an_unfitted_one_can_be_pickled_and_a_fitted_one_copied(fitted, encoder_folder):
    again = pickle.loads(pickle.dumps(quick(encoder_folder)))  # noqa: S301 - our own
    assert again.get_params() == quick(encoder_folder).get_params()
    assert copy.copy(fitted).predict(["router"]) == fitted.predict(["router"])


def test_labels_may_come_from_a_generator(encoder_folder):
    texts, labels = tickets(4)
    training = {**QUICK, "epochs": 1}
    given, listed = (quick(encoder_folder, training=training) for _ in range(2))
    given.fit((text for text in texts), (label for label in labels))
    np.testing.assert_array_equal(
        given.predict_proba(texts), listed.fit(texts, labels).predict_proba(texts)
    )


def test_integer_labels_come_back_as_integers_through_cross_validation_and_a_pipeline(
    encoder_folder,
):
    texts, labels = tickets(12)
    numbers = pd.Series(
        [{"billing": 10, "hardware": 20, "software": 30}[label] for label in labels]
    )
    pipeline = Pipeline(
        [
            ("strip", FunctionTransformer(lambda rows: [row.strip() for row in rows])),
            ("model", quick(encoder_folder)),
        ]
    )
    found = cross_validate(
        pipeline, pd.Series(texts), numbers, cv=2, return_estimator=True, error_score="raise"
    )
    assert found["test_score"].shape == (2,)
    assert ((found["test_score"] >= 0) & (found["test_score"] <= 1)).all()
    for fold in found["estimator"]:
        assert fold.predict(np.array(texts, object)).dtype.kind == "i"
        assert set(fold.predict(texts)) <= {10, 20, 30}


@pytest.mark.parametrize("kind", [int, np.int32, bool, str])
def test_labels_have_their_type_again_after_loading(encoder_folder, tmp_path, kind):
    texts, names = tickets(6)
    numbers = {
        "billing": kind(0),
        "hardware": kind(2),
        "software": kind(10),
    }  # in another order than their digits; True twice
    labels = [numbers[name] for name in names]
    fitted = quick(encoder_folder, training={**QUICK, "epochs": 1}).fit(texts, labels)
    fitted.save(tmp_path / "model", engine="keras")
    loaded = BertCNNClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == fitted.classes_.tolist() == sorted(set(numbers.values()))
    assert loaded.classes_.dtype.kind == fitted.classes_.dtype.kind
    assert loaded.predict(texts).dtype.kind == fitted.predict(texts).dtype.kind
    same = (
        [str(label) for label in labels]
        if kind is bool
        else pd.Series(labels, dtype=None if kind is str else float)
    )
    column = np.array(labels)
    assert (
        loaded.score(texts, labels)
        == fitted.score(texts, labels)
        == loaded.score(texts, same)
        == fitted.score(texts, column)
    )
    with pytest.warns(DataConversionWarning):
        assert loaded.score(texts, column[:, None]) == fitted.score(texts, labels)
    if kind is bool:
        assert loaded.score(texts, column.astype(int)) == fitted.score(texts, labels)


def test_a_seed_repeats_the_run_exactly_and_another_does_not(fitted, encoder_folder):
    texts = tickets()[0]
    same, other = (
        quick(encoder_folder, seed=seed).fit(*tickets(), valid=tickets(18))
        for seed in (fitted.seed, fitted.seed + 2)
    )
    np.testing.assert_array_equal(same.predict_proba(texts), fitted.predict_proba(texts))
    found, again, another = (
        classifier._bundle.tensors["logits/kernel"] for classifier in (fitted, same, other)
    )
    np.testing.assert_array_equal(again, found)
    assert np.abs(another - found).max() > 0.01


def test_full_changes_the_encoder_and_frozen_does_not(
    full, fitted, shallow_encoder_folder, encoder_folder
):
    name = "layer_0/expand/kernel"
    for classifier, folder, same in (
        (full, shallow_encoder_folder, False),
        (fitted, encoder_folder, True),
    ):
        assert (
            np.array_equal(classifier._bundle.tensors[name], read_checkpoint(folder).tensors[name])
            == same
        )


def test_long_and_blank_rows_are_told_and_auto_says_why(encoder_folder):
    texts, labels = tickets(8)
    notes = Notes()
    classifier = quick(encoder_folder, recipe="auto", progress=notes)
    classifier.fit([*texts, "", "router " * 200], [*labels, "billing", "hardware"])
    assert any("1 row left out" in note for note in notes.notes)
    assert any("longer than 64 tokens" in note for note in notes.notes)
    assert classifier.recipe_[0] == "few-shot"
    assert any(
        note.startswith("recipe few-shot: ") and "rows per label" in note for note in notes.notes
    )


def test_rows_without_a_label_are_learned_from_by_few_shot_and_left_out_by_others(
    shallow_encoder_folder, tmp_path
):
    few = {"recipe": "few-shot", "training": {**QUICK, "epochs": 1, "contrast_steps": 1}}
    texts, labels = tickets(8)
    notes, others = (
        Notes(),
        [
            "router socket",
            "a bill",
            "A BILL!",
            "app crash",
            " ",
            texts[0].upper(),
        ],
    )
    classifier = quick(shallow_encoder_folder, progress=notes, **few).fit(
        [*texts, "red cable"], [*labels, " "], unlabelled=others
    )
    assert sum("without a label" in note for note in notes.notes) == 2
    cut = (
        "4 of 6 rows without a label are learned from at most; the others are known, repeated, or"
        " more than 10,000"
    )
    assert cut in notes.notes
    # blank, known and repeated texts do not count
    assert any(note.startswith("4 rows without a label: of ") for note in notes.notes)
    assert classifier.classes_.tolist() == sorted(set(labels))
    classifier.save(tmp_path / "model", engine="keras")
    for page in ("MODEL_CARD.md", "report.html"):
        assert (
            "4 different texts, called what rows like them are called"
            in (tmp_path / "model" / page).read_text()
        )
    again = quick(shallow_encoder_folder, **few).fit(
        texts, labels, unlabelled=["red cable", *others]
    )
    np.testing.assert_allclose(
        again.predict_proba(texts), classifier.predict_proba(texts), atol=1e-6
    )
    for training, recipe, why in (
        ({**QUICK, "unlabelled_rows": 0}, "few-shot", "as asked"),
        (QUICK, "frozen", "few-shot alone learns from such rows, where each has one label"),
    ):
        notes = Notes()
        quick(
            shallow_encoder_folder,
            recipe=recipe,
            training={**training, "epochs": 1},
            progress=notes,
        ).fit(texts, labels, unlabelled=others)
        told = [note for note in notes.notes if "rows without a label" in note]
        assert told == [f"left out: 5 rows without a label; {why}"]


def test_epochs_asked_for_hold_but_not_where_auto_has_no_time_for_full(encoder_folder):
    training = {"epochs": 2, "batch_size": 16, "compiled_shapes": 1}
    asked = quick(encoder_folder, training=training).fit(*tickets(24))
    assert len(asked.history_) == 2
    chosen = quick(
        encoder_folder, recipe="auto", training={**training, "epochs": "2", "time_budget": 1e-9}
    ).fit(*tickets(24))
    assert chosen.recipe_[0] == "frozen"
    assert len(chosen.history_) > 2


def test_a_part_of_the_rows_is_learned_from_where_that_is_asked_for_or_time_lacks(
    encoder_folder, tmp_path
):
    texts, labels = tickets(60)
    notes = Notes()
    training = {**QUICK, "epochs": 1, "validation_rows": 12}
    asked = quick(encoder_folder, training={**training, "most_rows": 30}, progress=notes).fit(
        texts, labels
    )
    assert (
        "168 rows to learn from, 12 held out to choose the epoch and the thresholds" in notes.notes
    )
    asked.save(tmp_path / "model")
    for page in ("MODEL_CARD.md", "report.html"):
        told = (tmp_path / "model" / page).read_text()
        assert "138, for lack of time or as asked" in told
    notes = Notes()
    hurried = {name: value for name, value in training.items() if name != "epochs"}
    chosen = quick(
        encoder_folder,
        recipe="auto",
        training={**hurried, "time_budget": 1e-9},
        progress=notes,
    )
    chosen.fit([*texts, "router " * 200], [*labels, "hardware"])
    assert (
        "60 rows instead of 169 are learned from; --time-budget gives more time"
        in chosen.recipe_[1]
    )
    assert sum("longer than 64 tokens" in note for note in notes.notes) == 1
    chosen.save(tmp_path / "hurried")
    assert (
        "109, for lack of time or as asked" in (tmp_path / "hurried" / "MODEL_CARD.md").read_text()
    )
    whole = quick(encoder_folder, training=training).fit(texts, labels)
    whole.save(tmp_path / "whole")
    assert "rows left out" not in (tmp_path / "whole" / "MODEL_CARD.md").read_text()


def test_with_few_rows_the_held_out_rows_are_trained_on_after_evaluation(
    shallow_encoder_folder, tmp_path
):
    few = {"recipe": "few-shot", "training": {**QUICK, "epochs": 2, "contrast_steps": 1}}
    texts, labels = tickets(8)
    notes = Notes()
    classifier = quick(shallow_encoder_folder, **few, progress=notes).fit(texts, labels)
    assert any(
        note.startswith("training once more from the start, with the 3 held-out rows too")
        for note in notes.notes
    )
    assert notes.stages.count("training") == 2
    classifier.save(tmp_path / "model")
    told = "measured on first, then learned from as well"
    assert told in (tmp_path / "model" / "MODEL_CARD.md").read_text()
    report = (tmp_path / "model" / "report.html").read_text()
    assert told in report
    assert "before the model learned from them as well" in report
    loaded = bertcnn.load(tmp_path / "model", engine="keras")
    np.testing.assert_allclose(
        loaded.predict_proba(texts), classifier.predict_proba(texts), rtol=0, atol=1e-5
    )
    # the user's own validation rows stay apart
    again = quick(shallow_encoder_folder, **few).fit(texts, labels, valid=(texts[:6], labels[:6]))
    again.save(tmp_path / "given")
    assert told not in (tmp_path / "given" / "MODEL_CARD.md").read_text()
    assert len(again.history_) == len(classifier.history_) == 2


def test_decisions_predate_training_on_the_held_out_rows(encoder_folder, tmp_path):
    texts = tickets(30)[0]
    labels = [
        f"team {place}" for place in np.random.default_rng(0).integers(0, 3, len(texts))
    ]  # random labels
    few = {
        "recipe": "few-shot",
        "training": {**QUICK, "epochs": 60, "contrast_steps": 0},
        "auto_precision": 0.7,
    }
    classifier = quick(encoder_folder, **few).fit(texts, labels)
    classifier.save(tmp_path / "model", engine="keras")
    assert classifier.score(texts, labels) > 0.8  # memorised, including the held-out rows
    assert classifier.metrics_["accuracy"] < 0.6
    assert classifier.metrics_["decisions"]["automatic"] == 0


def test_rows_with_several_labels_get_more_steps(encoder_folder):
    class Stopping(Notes):
        def stage(self, name, total, unit="rows"):
            super().stage(name, total, unit)
            if name == "training":
                raise KeyboardInterrupt(total)

    texts, labels = tickets(8)
    for given, fewest in ((labels, 300), ([[label, "all"] for label in labels], 600)):
        with pytest.raises(KeyboardInterrupt) as stopped:
            BertCNNClassifier(encoder_folder, recipe="frozen", progress=Stopping()).fit(
                texts, given
            )
        assert fewest <= stopped.value.args[0] < fewest + 10


def test_given_validation_rows_are_used(fitted, encoder_folder):
    texts, labels = tickets(8)
    assert fitted.metrics_["rows"] == 54
    with pytest.raises(LabelError, match="validation rows with the labels 'unheard'"):
        quick(encoder_folder).fit(texts, labels, valid=(["router"], ["unheard"]))


@pytest.mark.parametrize(
    ("texts", "labels", "error", "message"),
    [
        ("router", ["a"], SettingsError, "one string; expected a list of strings"),
        (["router", None], ["a", "b"], LabelError, r"1 label \('a'\); expected at least 2"),
        (np.zeros((2, 2)), ["a", "b"], SettingsError, "one dimension"),
        (["router", "bill"], ["a"], LabelError, "2 texts and 1 labels"),
        (["router", "bill"], ["a", "a"], LabelError, r"1 label \('a'\); expected at least 2"),
        (
            ["router", "bill", "app"],
            ["a", "a", "b"],
            LabelError,
            "1 of 2 labels with a single row: 'b'",
        ),
    ],
)
def test_rows_that_cannot_be_learned_from_are_told_in_one_line(
    encoder_folder, texts, labels, error, message
):
    with pytest.raises(error, match=message) as raised:
        quick(encoder_folder).fit(texts, labels)
    assert "\n" not in str(raised.value)


def test_unknown_and_impossible_settings_are_told_by_name(encoder_folder):
    with pytest.raises(SettingsError, match="unknown key 'epoch'"):
        quick(encoder_folder, training={"epoch": 3}).fit(*tickets(4))
    with pytest.raises(SettingsError, match=r"epochs was '0'"):
        quick(encoder_folder, training={"epochs": 0}).fit(*tickets(4))
    with pytest.raises(SettingsError, match="recipe 'fast'"):
        quick(encoder_folder, recipe="fast").fit(*tickets(4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, r"seed -1; expected a whole number from 0 to 2147483647"),
        ({"seed": 1.5}, r"seed 1\.5"),
        ({"seed": 2**31}, "seed 2147483648"),
        ({"encoder": None}, "encoder None; expected a name or a folder"),
        ({"head": {"filters": 8}}, "expected HeadSettings"),
        ({"training": "epochs"}, "training 'epochs'; expected a dictionary"),
        ({"training": {"epochs": "three"}}, "epochs was 'three'"),
        ({"training": {"learning_rate": float("nan")}}, "learning_rate was 'nan'"),
    ],
)
def test_impossible_parameters_are_told_before_any_work(encoder_folder, changes, message):
    notes = Notes()
    with pytest.raises(SettingsError, match=message) as raised:
        quick(encoder_folder, progress=notes).set_params(**changes).fit(*tickets(4))
    assert "\n" not in str(raised.value)
    assert not notes.stages


def test_missing_and_mixed_labels_are_refused_and_not_learned(encoder_folder):
    texts, labels = tickets(4)
    with pytest.raises(LabelError, match="'nan' of type float as label number 1"):
        quick(encoder_folder).fit(texts, [float("nan"), float("nan"), *labels[2:]])
    with pytest.raises(LabelError, match="labels of the types integer and string"):
        quick(encoder_folder).fit(
            texts, [len(label) for label in labels], valid=(texts[:2], ["7", "8"])
        )
    with pytest.raises(SettingsError, match="expected two lists: texts and labels"):
        quick(encoder_folder).fit(texts, labels, valid=texts)


def test_texts_that_are_all_copies_leave_nothing_to_hold_out_and_are_told(encoder_folder):
    with pytest.raises(LabelError, match="4 rows of which none can be held out"):
        quick(encoder_folder).fit(
            ["my router 1", "My router 2!", "the app", "the app"], ["a", "a", "b", "b"]
        )


def test_balanced_weights_make_rare_labels_likelier(encoder_folder):
    texts, labels = tickets(12)
    rows = [row for row, label in enumerate(labels) if label != "software" or row % 6 == 0]
    few, given = [texts[row] for row in rows], [labels[row] for row in rows]
    probabilities = {}
    for weight in ("none", "balanced"):
        classifier = quick(
            encoder_folder, training={**QUICK, "epochs": 3, "class_weight": weight}
        ).fit(few, given, valid=(few, given))
        probabilities[weight] = classifier.predict_proba(["hello there"])[0, 2]
    assert probabilities["balanced"] > probabilities["none"]


def test_the_recipe_full_repeats_bit_for_bit(full, shallow_encoder_folder):
    again = quick(shallow_encoder_folder, **ONE_EPOCH_OF_FULL).fit(*tickets(4))
    first, second = full._bundle.tensors, again._bundle.tensors
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_a_loaded_classifier_can_learn_again(fitted, saved, encoder_folder):
    again = BertCNNClassifier.load(saved)
    assert again.recipe_ == ("frozen", "as saved")
    assert again.metrics_["macro_f1"] == fitted.metrics_["macro_f1"]
    again.set_params(encoder=encoder_folder, training={**QUICK, "epochs": 1}).fit(
        ["router", "cable", "a bill", "refund"], [1, 1, 2, 2]
    )
    assert list(again.classes_) == [1, 2]


def test_what_follows_the_training_has_stages_of_its_own(encoder_folder, tmp_path):
    notes = Notes()
    quick(encoder_folder, progress=notes).fit(*tickets()).save(tmp_path / "m", engine="keras")
    after = notes.stages[notes.stages.index("training") + 1 :]
    assert after == ["calibrating and measuring", "choosing thresholds", "writing the report"]


class Epochs(keras.callbacks.Callback):
    """Keeps a training's epoch reports; stops it after some."""

    def __init__(self, most=99):
        super().__init__()
        self.logs, self.most = [], most

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(dict(logs))
        self.model.stop_training = epoch + 1 == self.most


def test_callbacks_of_keras_hear_of_the_training_and_can_end_it(encoder_folder):
    epochs = Epochs(most=3)
    classifier = quick(encoder_folder, callbacks=[epochs]).fit(*tickets(8))
    assert len(epochs.logs) == len(classifier.history_) == 3
    for logs, epoch in zip(epochs.logs, classifier.history_, strict=True):
        assert logs["loss"] == pytest.approx(epoch.loss)
        assert logs["val_accuracy"] == pytest.approx(epoch.accuracy)
        assert "val_macro_f1" in logs
