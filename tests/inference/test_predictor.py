"""Inference with a saved model."""

import dataclasses
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bertcnn
from bertcnn.bundle import Decisions, OutOfScopeDetector, read_bundle, write_bundle
from bertcnn.errors import SettingsError
from bertcnn.inference.predictor import Predictor
from tests.tickets import tickets
from tests.tiny import saved, trained

NAUGHTY = [
    "",
    " ",
    "\t\r\n\v\f",
    "\0",
    "router\0cable",
    "\ud800",
    "\udfff\ud83d",
    "bill \ud83d refund",
    "\ufeffrefund",
    "\ufffe\uffff",
    "\u200b\u200c\u200d\u2060",
    "\u202erouter\u202c",
    "\u2028\u2029\x85",
    "\x01\x02\x1b[31mred\x1b[0m\x7f",
    "٠١٢٣",
    "½ ² ₂ ①",
    "\\",
    "\\u0000",
    "[PAD]",
    "[CLS] [SEP] [MASK] [UNK]",
    "##ing ##",
    "我的路由器坏了",
    "ルーターが壊れた",
    "라우터가 고장났어요",
    "جهاز التوجيه لا يعمل",
    "הנתב לא עובד",
    "เราเตอร์เสีย",
    "राउटर ख़राब है",
    "мой роутер сломался",
    "ο δρομολογητής",
    "Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤",
    "a" + "\u0301" * 500,
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽",
    "😀" * 300,
    "ﷺ ﷽",
    "ﬁ ﬂ Ǆ ß ẞ İ ı",
    "𝕿𝖍𝖊 𝓻𝓸𝓾𝓽𝓮𝓻",
    "…—–‘’“”«»",
    "x" * 100_000,
    "x " * 20_000,
    "." * 5_000,
    "refund\n" * 1_000,
    "\U0010ffff\U000e0001",
]


@pytest.fixture(scope="module")
def predictor(encoder_folder):
    return bertcnn.load(saved(encoder_folder))


def test_it_answers_bit_for_bit_as_the_classifier_that_was_saved(encoder_folder):
    texts = [*tickets()[0], *NAUGHTY[:40]]
    same = bertcnn.load(saved(encoder_folder), engine="keras")
    np.testing.assert_array_equal(
        same.predict_proba(texts), trained(encoder_folder).predict_proba(texts)
    )


def test_the_compiled_engine_answers_nearly_the_same(predictor, encoder_folder):
    texts = [*tickets()[0], *NAUGHTY[:40]]
    reference = trained(encoder_folder).predict_proba(texts)
    answers = predictor.predict_proba(texts)
    assert np.abs(answers - reference).max() < 0.1
    assert np.mean(answers.argmax(axis=1) == reference.argmax(axis=1)) > 0.97


def test_an_unknown_engine_is_refused(encoder_folder):
    with pytest.raises(
        SettingsError, match=r"engine 'gpu'.*one of 'auto', 'openvino', 'onnx', 'keras'"
    ):
        bertcnn.load(saved(encoder_folder), engine="gpu")


def test_a_changed_engine_is_not_used_and_one_is_made_from_the_weights(
    encoder_folder, cpu_with_vnni, tmp_path, caplog, monkeypatch
):
    # no compiled copy of the right engine is cached
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    shutil.copytree(saved(encoder_folder), folder)
    weights = folder / "engine" / "engine.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    changed = bertcnn.load(folder)
    assert "engine.safetensors was changed after the model was saved" in caplog.text
    assert changed.engine.name == "openvino-float32"
    texts = tickets()[0]
    np.testing.assert_allclose(
        changed.predict_proba(texts), trained(encoder_folder).predict_proba(texts), atol=1e-5
    )


def test_a_model_saved_without_an_engine_answers_the_same(encoder_folder, tmp_path):
    trained(encoder_folder).save(tmp_path / "model", engine="keras")
    assert not (tmp_path / "model" / "engine").exists()
    texts = tickets()[0]
    answers = bertcnn.load(tmp_path / "model").predict_proba(texts)
    np.testing.assert_allclose(answers, trained(encoder_folder).predict_proba(texts), atol=1e-5)


def test_no_string_harms_it(predictor):
    probabilities = predictor.predict_proba(NAUGHTY)
    assert probabilities.dtype == np.float32
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)


def test_neighbours_and_order_change_nothing(predictor):
    texts = [*tickets(4)[0], *NAUGHTY]
    together = predictor.predict_proba(texts)
    np.testing.assert_allclose(together[::-1], predictor.predict_proba(texts[::-1]), atol=1e-5)
    alone = [predictor.predict_proba([text])[0] for text in texts[::9]]
    np.testing.assert_allclose(together[::9], alone, atol=1e-5)


def test_a_text_in_which_nothing_can_be_seen_gets_no_label(predictor):
    answers = predictor.classify(["refund money", "", " \t\n", "\u200b\ufeff", "\0", "\ud83d", "."])
    assert [answer.label is None for answer in answers] == [False, *[True] * 5, False]
    for answer in answers:
        assert (answer.confidence is None) == (answer.probabilities == {}) == (answer.label is None)


def test_the_confidence_is_the_labels_probability_and_the_highest(predictor):
    (answer,) = predictor.classify(["router cable"])
    assert list(answer.probabilities) == list(predictor.labels) == list(predictor.classes_)
    highest = max(answer.probabilities.values())
    assert answer.confidence == answer.probabilities[answer.label] == highest
    assert predictor.predict(["router cable"])[0] == answer.label == "hardware"


def test_a_model_without_its_engine_heeds_the_number_of_streams(encoder_folder, tmp_path):
    shutil.copytree(
        saved(encoder_folder), tmp_path / "model", ignore=shutil.ignore_patterns("engine")
    )
    for streams in (1, 2):
        assert bertcnn.load(tmp_path / "model", streams=streams).engine.streams == streams


def test_answers_by_column_are_those_of_classify(predictor):
    texts = ["my router is broken", "", "the bill is wrong"]
    answers, told = predictor.answer(texts), predictor.classify(texts)
    named = [predictor.labels[label] if label >= 0 else None for label in answers.labels]
    assert named == [answer.label for answer in told]
    assert list(answers.confidence) == [answer.confidence or 0 for answer in told]
    assert not answers.probabilities[1].any()
    assert len(answers) == 3


def test_few_held_out_rows_send_everything_to_review_by_default(predictor, encoder_folder):
    texts = ["refund money", "", "router cable"]
    assert predictor.decisions.thresholds == (None,) * 3  # 6 rows are too few for 95%
    assert [answer.decision for answer in predictor.classify(texts)] == [
        "review:ambiguous",
        "review:empty",
        "review:ambiguous",
    ]
    lenient = bertcnn.load(saved(encoder_folder), auto_precision=0.3)
    answers = lenient.classify(texts)
    assert [answer.decision for answer in answers] == ["auto", "review:empty", "auto"]
    for answer in (answers[0], answers[2]):
        assert answer.confidence >= lenient.decisions.thresholds[0]
        assert answer.runner_up == sorted(answer.probabilities, key=answer.probabilities.get)[-2]
    assert answers[1].runner_up is None


def scope_of(bundle, weights, limit, **given):
    """A detector with one centroid of each kind; `weights` are those of the five scores."""
    width = bundle.config.encoder.width
    one = np.eye(1, 3, dtype=np.float32), np.eye(1, width, dtype=np.float32)
    rest = {"background": np.zeros(width, np.float32), "centroid_labels": np.array([1], np.int32)}
    return OutOfScopeDetector(
        *one, np.array(weights, np.float32), limit, auto_limit=limit, **rest, **given
    )


@pytest.mark.parametrize(
    ("limit", "decided", "decision"),
    [(-99, True, "out_of_scope"), (99, True, "auto"), (99, False, "ambiguous")],
)
def test_a_text_out_of_scope_is_not_answered_however_sure_the_model_is(
    encoder_folder, limit, decided, decision
):
    bundle = read_bundle(saved(encoder_folder))
    lenient = bertcnn.load(saved(encoder_folder), auto_precision=0.3)
    changed = dataclasses.replace(
        bundle,
        scope=scope_of(bundle, [1, 1, 1, 1, 0], limit),  # every text scores above -99
        decisions=lenient.decisions if decided else Decisions(),
    )
    judged = Predictor(changed, lenient.engine)
    answers = judged.classify(["refund money", "", "router cable"])
    assert [answer.label for answer in answers] == ["billing", None, "hardware"]
    expected = decision if decision == "auto" else f"review:{decision}"
    assert [answer.decision for answer in answers] == [expected, "review:empty", expected]


def test_a_text_in_words_of_another_label_is_out_of_scope(encoder_folder):
    bundle, engine = read_bundle(saved(encoder_folder)), bertcnn.load(saved(encoder_folder)).engine
    refund, router = (bundle.vocabulary.index(word) for word in ("refund", "router"))
    words, log_odds = np.sort(np.array([refund, router], np.int32)), np.zeros((2, 3), np.float32)
    log_odds[words == refund, bundle.labels.index("hardware")] = -5
    scope = scope_of(bundle, [0, 0, 0, 1, 0], 1.0, words=words, log_odds=log_odds)
    answers = Predictor(dataclasses.replace(bundle, scope=scope), engine).classify(
        ["router cable", "router refund cable cable", "refund"]
    )
    outside = [answer.decision == "review:out_of_scope" for answer in answers]
    assert outside == [False, True, False]
    assert answers[1].label == "hardware"


def test_a_label_can_need_more_than_the_others(encoder_folder):
    strict = bertcnn.load(saved(encoder_folder), auto_precision="0.3,hardware=0.99")
    assert [answer.decision for answer in strict.classify(["refund money", "router cable"])] == [
        "auto",
        "review:ambiguous",
    ]
    with pytest.raises(SettingsError, match=r"for the label 'sales'; expected labels of the model"):
        bertcnn.load(saved(encoder_folder), auto_precision="0.3,sales=0.99")


def test_a_precision_cannot_be_requested_without_held_out_answers(encoder_folder, tmp_path):
    bundle = dataclasses.replace(read_bundle(saved(encoder_folder)), decisions=Decisions())
    write_bundle(bundle, tmp_path / "model")
    (answer,) = bertcnn.load(tmp_path / "model").classify(["refund"])
    assert answer.decision == "review:ambiguous"
    with pytest.raises(
        SettingsError,
        match=r"precision 0\.9 for a model saved without its held-out answers.*train it again",
    ):
        bertcnn.load(tmp_path / "model", auto_precision=0.9)


@pytest.mark.parametrize(
    "array", [pa.array, lambda texts: pa.chunked_array([texts[:1], texts[1:]])]
)
def test_columns_of_pyarrow_are_taken(predictor, array):
    texts, _ = tickets(3)
    assert predictor.predict(array(texts)).tolist() == predictor.predict(texts).tolist()


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_a_missing_text_is_blank_as_in_a_file(predictor, missing):
    texts, _ = tickets(1)
    np.testing.assert_array_equal(
        predictor.predict_proba([texts[0], missing]), predictor.predict_proba([texts[0], ""])
    )
    answers = predictor.classify(pd.Series([texts[0], missing], dtype=object))
    assert [answer.label is None for answer in answers] == [False, True]


def test_a_model_shows_its_labels_and_its_engine(predictor):
    shown = f"{predictor.bundle.bundle_id[:12]}: 3 labels, engine {predictor.engine.name}"
    assert repr(predictor) == f"<Predictor {shown}>"


def test_no_texts_give_no_answers(predictor):
    assert predictor.predict_proba([]).shape == (0, 3)
    assert predictor.predict([]).shape == (0,)
    assert predictor.classify([]) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("router", "one string; expected a list"),
        (None, "of type NoneType; expected a list of strings"),
        (["a", 3], "'3' of type int as text number 2; expected a string. What to do: pass strings"),
        ({"a", "b"}, "texts in a set; expected a list of strings, whose order the answers have"),
        ({"text": ["a"]}, "texts in a dict; expected a list of strings"),
    ],
)
def test_texts_that_are_not_a_list_of_strings_are_refused(predictor, texts, message):
    with pytest.raises(SettingsError, match=message):
        predictor.predict(texts)


def test_using_a_model_imports_nothing_heavy_and_no_training_code(encoder_folder):
    code = (
        "import sys,"
        f" bertcnn\nbertcnn.load({str(saved(encoder_folder))!r}).predict(['router'])\nheavy ="
        " ('keras', 'tensorflow', 'pandas', 'sklearn', 'scipy', 'nncf', 'streamlit',"
        " 'bertcnn.training', 'bertcnn.classifier')\nprint([name for name in sys.modules if"
        " name.startswith(heavy)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
