"""The scikit-learn estimator."""

import copy
import io
import pickle
import re

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
from tests.listener import Listener, interrupt
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
    score = fitted.score(texts, labels)
    assert score > 0.9
    assert fitted.score(iter(texts), iter(labels)) == score
    half = [label if row % 2 else " " for row, label in enumerate(labels)]
    weights = np.arange(len(texts)) + 1.0
    labelled = fitted.score(texts[1::2], labels[1::2], weights[1::2])
    assert fitted.score(texts, half, weights) == labelled  # blank ones do not count
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


def test_a_saved_and_loaded_model_answers_the_same(fitted, saved):
    texts = tickets()[0]
    predictor, again = bertcnn.load(saved, engine="keras"), BertCNNClassifier.load(saved)
    np.testing.assert_array_equal(predictor.predict_proba(texts), fitted.predict_proba(texts))
    found = again.predict_proba(texts)
    np.testing.assert_array_equal(found, bertcnn.load(saved).predict_proba(texts))
    assert list(again.predict(texts)) == list(fitted.predict(texts))


@pytest.mark.usefixtures("cpu_with_vnni")
def test_saved_decisions_come_from_the_saved_engines_answers(fitted, tmp_path):
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


def test_the_saved_model_quotes_no_training_row(saved):
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
def test_pickling_a_fitted_or_loaded_classifier_is_refused(fitted, saved, use):
    for model, fix in (
        (fitted, r"a classifier, .*What to do: save it with \.save\(folder\), and load it with"),
        (BertCNNClassifier.load(saved), r"a classifier, .*What to do: save it with"),
        (load(saved), r"a model, .*What to do: keep the folder that \.save\(folder\) wrote"),
    ):
        with pytest.raises(
            SettingsError, match=rf"\Acannot pickle, joblib\.dump or deepcopy {fix}[^\n]*\Z"
        ):
            use(model)


def test_an_unfitted_classifier_can_be_pickled_and_a_fitted_one_copied(fitted, encoder_folder):
    again = pickle.loads(pickle.dumps(quick(encoder_folder)))  # noqa: S301 - our own
    assert again.get_params() == quick(encoder_folder).get_params()
    assert copy.copy(fitted).predict(["router"]) == fitted.predict(["router"])


def test_integer_labels_stay_integers_in_cross_validation_and_pipelines(
    encoder_folder,
):
    texts, labels = tickets(12)
    numbers = pd.Series(labels).map({"billing": 10, "hardware": 20, "software": 30})
    strip = FunctionTransformer(lambda rows: [row.strip() for row in rows])
    pipeline = Pipeline([("strip", strip), ("model", quick(encoder_folder))])
    options = {"return_estimator": True, "error_score": "raise"}
    found = cross_validate(pipeline, pd.Series(texts), numbers, cv=2, **options)
    assert found["test_score"].shape == (2,)
    assert ((found["test_score"] >= 0) & (found["test_score"] <= 1)).all()
    for fold in found["estimator"]:
        assert fold.predict(np.array(texts, object)).dtype.kind == "i"
        assert set(fold.predict(texts)) <= {10, 20, 30}


@pytest.mark.parametrize("kind", [np.int32, bool])
def test_labels_keep_their_type_after_loading(encoder_folder, tmp_path, kind):
    texts, names = tickets(6)
    # in another order than their digits; True twice
    numbers = {"billing": kind(0), "hardware": kind(2), "software": kind(10)}
    labels = [numbers[name] for name in names]
    one_epoch = quick(encoder_folder, training={**QUICK, "epochs": 1})
    fitted = one_epoch.fit(iter(texts), iter(labels))
    fitted.save(tmp_path / "model", engine="keras")
    loaded = BertCNNClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == fitted.classes_.tolist() == sorted(set(numbers.values()))
    assert loaded.classes_.dtype.kind == fitted.classes_.dtype.kind
    assert loaded.predict(texts).dtype.kind == fitted.predict(texts).dtype.kind
    column, score = np.array(labels), fitted.score(texts, labels)
    others = [column]
    if kind is bool:
        others += [[str(label) for label in labels], column.astype(int)]
    else:
        others.append(pd.Series(labels, dtype=float))
    for other in (labels, *others):
        assert loaded.score(texts, other) == score
    with pytest.warns(DataConversionWarning):
        assert loaded.score(texts, column[:, None]) == score


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
    def has_changed(classifier, folder):
        name = "layer_0/expand/kernel"
        return (classifier._bundle.tensors[name] != read_checkpoint(folder).tensors[name]).any()

    assert has_changed(full, shallow_encoder_folder)
    assert not has_changed(fitted, encoder_folder)


def test_long_and_blank_rows_and_the_choice_of_auto_are_reported(encoder_folder):
    texts, labels = tickets(8)
    notes = Listener()
    classifier = quick(encoder_folder, recipe="auto", progress=notes)
    classifier.fit([*texts, "", "router " * 200], [*labels, "billing", "hardware"])
    told = "\n".join(notes.notes)
    assert "1 row left out" in told
    assert "longer than 64 tokens" in told
    assert classifier.recipe_[0] == "few-shot"
    assert re.search("^recipe few-shot: .*rows per label", told, re.MULTILINE)


def test_few_shot_uses_rows_without_a_label_and_other_recipes_leave_them_out(
    shallow_encoder_folder, tmp_path
):
    few = {"recipe": "few-shot", "training": {**QUICK, "epochs": 1, "contrast_steps": 1}}
    texts, labels = tickets(8)
    notes = Listener()
    # blank, known and repeated texts do not count
    others = ["router socket", "a bill", "A BILL!", "app crash", " ", texts[0].upper()]
    classifier = quick(shallow_encoder_folder, progress=notes, **few).fit(
        [*texts, "red cable"], [*labels, " "], unlabelled=others
    )
    first, second = (note for note in notes.notes if "without a label" in note)
    assert first.startswith("at most 4 of 6 rows without a label are used; the others are")
    assert second.startswith("4 rows without a label: of ")
    assert classifier.classes_.tolist() == sorted(set(labels))
    classifier.save(tmp_path / "model", engine="keras")
    for page in ("MODEL_CARD.md", "report.html"):
        told = (tmp_path / "model" / page).read_text()
        assert "4 different texts, pseudo-labelled from similar rows" in told
    again = quick(shallow_encoder_folder, **few)
    again.fit(texts, labels, unlabelled=["red cable", *others])
    found, wanted = (model.predict_proba(texts) for model in (again, classifier))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    for recipe, more, why in (
        ("few-shot", {"unlabelled_rows": 0}, "as asked"),
        ("frozen", {}, "only few-shot uses them, and only where each row has one label"),
    ):
        notes = Listener()
        training = {**QUICK, "epochs": 1, **more}
        without = quick(shallow_encoder_folder, recipe=recipe, training=training, progress=notes)
        without.fit(texts, labels, unlabelled=others)
        told = [note for note in notes.notes if "rows without a label" in note]
        assert told == [f"left out: 5 rows without a label; {why}"]


def test_requested_epochs_are_kept_unless_auto_lacks_time_for_full(encoder_folder):
    training = {"epochs": "2", "batch_size": 16, "compiled_shapes": 1}
    asked = quick(encoder_folder, training=training).fit(*tickets(24))
    assert len(asked.history_) == 2
    hurried = {**training, "time_budget": 1e-9}
    chosen = quick(encoder_folder, recipe="auto", training=hurried).fit(*tickets(24))
    assert chosen.recipe_[0] == "frozen"
    assert len(chosen.history_) > 2


def test_a_part_of_the_rows_is_used_on_request_or_for_lack_of_time(encoder_folder, tmp_path):
    texts, labels = tickets(60)
    notes = Listener()
    training = {**QUICK, "epochs": 1, "validation_rows": 12}

    def pages(classifier, name):
        classifier.save(tmp_path / name)
        return [(tmp_path / name / page).read_text() for page in ("MODEL_CARD.md", "report.html")]

    asked = quick(encoder_folder, training={**training, "most_rows": 30}, progress=notes)
    told = pages(asked.fit(texts, labels), "asked")
    held_out = "168 rows to learn from, 12 held out to choose the epoch and the thresholds"
    assert held_out in notes.notes
    assert all("138, for lack of time or as asked" in page for page in told)
    notes = Listener()
    hurried = {name: value for name, value in training.items() if name != "epochs"}
    hurried["time_budget"] = 1e-9
    chosen = quick(encoder_folder, recipe="auto", training=hurried, progress=notes)
    chosen.fit([*texts, "router " * 200], [*labels, "hardware"])
    assert "60 of 169 rows are used; --time-budget allows" in chosen.recipe_[1]
    assert sum("longer than 64 tokens" in note for note in notes.notes) == 1
    assert "109, for lack of time or as asked" in pages(chosen, "hurried")[0]
    whole = quick(encoder_folder, training=training).fit(texts, labels)
    assert "rows left out" not in pages(whole, "whole")[0]


def test_with_few_rows_a_refit_uses_the_held_out_rows_after_evaluation(
    shallow_encoder_folder, tmp_path
):
    few = {"recipe": "few-shot", "training": {**QUICK, "epochs": 2, "contrast_steps": 1}}
    texts, labels = tickets(8)
    notes = Listener()
    classifier = quick(shallow_encoder_folder, **few, progress=notes).fit(texts, labels)
    told = "training again from the start, now with the 3 held-out rows too"
    assert any(note.startswith(told) for note in notes.notes)
    assert [name for name, *_ in notes.stages].count("training") == 2
    classifier.save(tmp_path / "model")
    told = "used for the figures first, then for training too"
    assert told in (tmp_path / "model" / "MODEL_CARD.md").read_text()
    report = (tmp_path / "model" / "report.html").read_text()
    assert told in report
    assert "before the model was trained again with them" in report
    loaded = bertcnn.load(tmp_path / "model", engine="keras")
    found, wanted = (model.predict_proba(texts) for model in (loaded, classifier))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    # the user's own validation rows stay apart
    again = quick(shallow_encoder_folder, **few).fit(texts, labels, valid=(texts[:6], labels[:6]))
    again.save(tmp_path / "given")
    assert told not in (tmp_path / "given" / "MODEL_CARD.md").read_text()
    assert len(again.history_) == len(classifier.history_) == 2


def test_decisions_are_made_before_the_refit(encoder_folder):
    texts = tickets(30)[0]
    by_chance = np.random.default_rng(0).integers(0, 3, len(texts))
    labels = [f"team {place}" for place in by_chance]
    few = {**QUICK, "epochs": 60, "contrast_steps": 0}
    classifier = quick(encoder_folder, recipe="few-shot", training=few, auto_precision=0.7)
    classifier.fit(texts, labels)
    assert classifier.score(texts, labels) > 0.8  # memorised, including the held-out rows
    assert classifier.metrics_["accuracy"] < 0.6
    assert classifier.metrics_["decisions"]["automatic"] == 0


def test_rows_with_several_labels_get_more_steps(encoder_folder):
    texts, labels = tickets(8)
    for given, fewest in ((labels, 300), ([[label, "all"] for label in labels], 600)):
        progress = Listener(interrupt, 0, stage="training")
        with pytest.raises(KeyboardInterrupt):
            BertCNNClassifier(encoder_folder, recipe="frozen", progress=progress).fit(texts, given)
        assert fewest <= progress.stages[-1][1] < fewest + 10


def test_given_validation_rows_are_used(fitted, encoder_folder):
    texts, labels = tickets(8)
    assert fitted.metrics_["rows"] == 54
    for learned, valid, error, message in (
        (labels, (["router"], ["unheard"]), LabelError, "rows with the labels 'unheard'"),
        (
            [*map(len, labels)],
            (texts[:2], ["7", "8"]),
            LabelError,
            "of the types integer and string",
        ),
        (labels, texts, SettingsError, "expected two lists: texts and labels"),
    ):
        with pytest.raises(error, match=message):
            quick(encoder_folder).fit(texts, learned, valid=valid)


NAN = float("nan")


@pytest.mark.parametrize(
    ("texts", "labels", "error", "message"),
    [
        ("router", ["a"], SettingsError, "one string; expected a list of strings"),
        (["router", None], ["a", "b"], LabelError, r"1 label \('a'\); expected at least 2"),
        (np.zeros((2, 2)), ["a", "b"], SettingsError, "one dimension"),
        (["router", "bill"], ["a"], LabelError, "2 texts and 1 labels"),
        (["router", "bill"], ["a", "a"], LabelError, r"1 label \('a'\); expected at least 2"),
        (["one", "two", "three"], ["a", "a", "b"], LabelError, "2 labels with a single row: 'b'"),
        (["router", "bill"], [NAN, "b"], LabelError, "'nan' of type float as label number 1"),
        (
            *(["my router 1", "My router 2!", "the app", "the app"], ["a", "a", "b", "b"]),
            *(LabelError, "4 rows of which none can be held out"),
        ),
    ],
)
def test_untrainable_rows_are_refused_in_one_line(encoder_folder, texts, labels, error, message):
    with pytest.raises(error, match=rf"\A[^\n]*{message}[^\n]*\Z"):
        quick(encoder_folder).fit(texts, labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, r"seed -1; expected a whole number from 0 to 2147483647"),
        ({"seed": 1.5}, r"seed 1\.5"),
        ({"seed": 2**31}, "seed 2147483648"),
        ({"encoder": None}, "encoder None; expected a name or a folder"),
        ({"head": {"filters": 8}}, "expected HeadSettings"),
        ({"recipe": "fast"}, "recipe 'fast'"),
        ({"training": "epochs"}, "training 'epochs'; expected a dictionary"),
        ({"training": {"epoch": 3}}, "unknown key 'epoch'"),
        ({"training": {"epochs": 0}}, "epochs was '0'"),
        ({"training": {"epochs": "three"}}, "epochs was 'three'"),
        ({"training": {"learning_rate": NAN}}, "learning_rate was 'nan'"),
    ],
)
def test_impossible_parameters_are_refused_before_any_work(encoder_folder, changes, message):
    notes = Listener()
    with pytest.raises(SettingsError, match=rf"\A[^\n]*{message}[^\n]*\Z"):
        quick(encoder_folder, progress=notes).set_params(**changes).fit(*tickets(4))
    assert not notes.stages


def test_balanced_weights_make_rare_labels_likelier(encoder_folder):
    rows = list(zip(*tickets(12), strict=True))
    few = [row for place, row in enumerate(rows) if row[1] != "software" or place % 6 == 0]
    texts, labels = map(list, zip(*few, strict=True))
    shares = []
    for weight in ("none", "balanced"):
        training = {**QUICK, "epochs": 3, "class_weight": weight}
        model = quick(encoder_folder, training=training).fit(texts, labels, valid=(texts, labels))
        shares.append(model.predict_proba(["hello there"])[0, 2])
    assert shares[0] < shares[1]


def test_the_recipe_full_repeats_bit_for_bit(full, shallow_encoder_folder):
    again = quick(shallow_encoder_folder, **ONE_EPOCH_OF_FULL).fit(*tickets(4))
    first, second = full._bundle.tensors, again._bundle.tensors
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_a_loaded_classifier_can_be_fitted_again(fitted, saved, encoder_folder):
    again = BertCNNClassifier.load(saved)
    assert again.recipe_ == ("frozen", "as saved")
    assert again.metrics_["macro_f1"] == fitted.metrics_["macro_f1"]
    again.set_params(encoder=encoder_folder, training={**QUICK, "epochs": 1}).fit(
        ["router", "cable", "a bill", "refund"], [1, 1, 2, 2]
    )
    assert list(again.classes_) == [1, 2]


def test_steps_after_training_have_their_own_progress_stages(encoder_folder, tmp_path):
    notes = Listener()
    quick(encoder_folder, progress=notes).fit(*tickets()).save(tmp_path / "m", engine="keras")
    stages = [name for name, *_ in notes.stages]
    after = stages[stages.index("training") + 1 :]
    assert after == ["calibrating and measuring", "choosing thresholds", "writing the report"]


class Epochs(keras.callbacks.Callback):
    """Keeps a training's epoch reports; stops it after some."""

    def __init__(self, most=99):
        super().__init__()
        self.logs, self.most = [], most

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(dict(logs))
        self.model.stop_training = epoch + 1 == self.most


def test_keras_callbacks_see_the_epochs_and_can_stop_training(encoder_folder):
    epochs = Epochs(most=3)
    classifier = quick(encoder_folder, callbacks=[epochs]).fit(*tickets(8))
    assert len(epochs.logs) == len(classifier.history_) == 3
    for logs, epoch in zip(epochs.logs, classifier.history_, strict=True):
        assert logs["loss"] == pytest.approx(epoch.loss)
        assert logs["val_accuracy"] == pytest.approx(epoch.accuracy)
        assert "val_macro_f1" in logs
