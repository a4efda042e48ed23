"""Batches of several requests: a failing request fails alone, and the queue is limited."""

import asyncio
from dataclasses import replace

import pytest

from bertcnn import load
from bertcnn.bundle.bundle import read_bundle, write_bundle
from bertcnn.bundle.schemas import Decisions
from bertcnn.errors import SettingsError
from bertcnn.serving.batching import Batcher, Work
from bertcnn.serving.models import load_model
from bertcnn.serving.options import named_models
from bertcnn.serving.problems import RequestError


@pytest.fixture(scope="module")
def served(model):
    return load_model("tiny", str(model))


@pytest.fixture(scope="module")
def several(model):
    """A model for texts with several labels, without an engine."""
    bundle = read_bundle(model)
    config = bundle.config.model_copy(update={"label_separator": ";"})
    calibration = bundle.calibration.model_copy(update={"label_thresholds": (0.3, 0.3, 0.3)})
    folder = model.with_name("several")
    changed = replace(bundle, config=config, calibration=calibration, decisions=Decisions())
    write_bundle(changed, folder)
    return folder


@pytest.fixture(scope="module")
def levels(model):
    """A model with hierarchical labels, without an engine."""
    bundle = read_bundle(model)
    config = bundle.config.model_copy(update={"label_levels": ">"})
    labels = ("money > bill", "money > refund", "things")
    folder = model.with_name("levels")
    write_bundle(replace(bundle, config=config, labels=labels, decisions=Decisions()), folder)
    return folder


@pytest.mark.parametrize("kind", ["several", "levels"])
def test_several_labels_and_levels_are_answered_as_the_model_answers_them(kind, request):
    folder = request.getfixturevalue(kind)
    texts = ["my router and the invoice", "", "refund the bill twice"]
    served = load_model(kind, str(folder)).answer(texts, [None] * 3)
    predictor = load(folder)
    assert (predictor.multi_label, bool(predictor.hierarchy.parents)) == (
        kind == "several",
        kind == "levels",
    )
    expected = predictor.classify(texts)
    for answer, other in zip(served, expected, strict=True):
        assert (answer.labels, answer.decision) == (other.labels, other.decision)
        assert answer.probabilities == pytest.approx(other.probabilities, abs=1e-3)


def answered(works_of, threads=1, most_waiting=100):
    """Submit all works to a new batcher at once; returns both when all works are answered."""

    async def run():
        loop = asyncio.get_running_loop()
        batcher = Batcher(loop, threads, most_waiting)
        works = works_of(loop)
        for work in works:
            batcher.submit(work)
        await asyncio.gather(*(work.answers for work in works), return_exceptions=True)
        await asyncio.to_thread(batcher.stop)
        return batcher, works

    return asyncio.run(run())


def test_a_request_that_fails_does_so_alone(served, predictor):
    def works(loop):
        return [
            Work(served, [f"my router {number}"], precision, loop.create_future())
            for number, precision in enumerate([None, "0.9,nothing=0.9", None])
        ]

    _, (first, wrong, last) = answered(works)
    for work in (first, last):
        assert work.answers.result()[0].label == predictor.predict(work.texts)[0]
    with pytest.raises(RequestError, match="texts that could not be answered"):
        wrong.answers.result()
    with pytest.raises(SettingsError, match="nothing"):
        served.decisions_for("0.9,nothing=0.9")


def test_large_requests_are_answered_in_order_by_all_threads(served, predictor):
    texts = [f"{'the invoice' if row % 3 else 'my router'} number {row}" for row in range(300)]

    def works(loop):
        return [Work(served, part, None, loop.create_future()) for part in (texts, texts[:1])]

    batcher, (all_texts, one) = answered(works, threads=2, most_waiting=400)
    labels = [answer.label for answer in all_texts.answers.result()]
    assert labels == predictor.predict(texts).tolist()
    assert one.answers.result()[0].label == labels[0]
    assert batcher.waiting == 0


@pytest.mark.parametrize(
    ("texts", "finished"), [(140, ["long", "short"]), (2500, ["short", "long"])]
)
def test_only_a_very_long_request_lets_others_pass(served, texts, finished):
    order = []

    def works(loop):
        made = []
        for name, number in (("long", texts), ("short", 5)):
            work = Work(served, ["my router"] * number, None, loop.create_future())
            work.answers.add_done_callback(lambda _, name=name: order.append(name))
            made.append(work)
        return made

    answered(works, most_waiting=3000)
    assert order == finished


def test_each_request_has_its_own_precision(served):
    def works(loop):
        return [
            Work(served, ["my router"] * 3, precision, loop.create_future())
            for precision in (None, 0.5, "0.999")
        ]

    decisions = [work.answers.result()[0].decision for work in answered(works)[1]]
    own = served.predictor.classify(["my router"])[0].decision
    assert decisions[0] == own
    for precision, decision in zip((0.5, "0.999"), decisions[1:], strict=True):
        limits = served.predictor.decisions_for(precision)
        encoded = served.predictor.encode(["my router"])
        output = served.predictor.run(encoded)
        answers = served.predictor.answer_from(["my router"], encoded, output, limits)
        assert served.predictor.predictions(["my router"], answers)[0].decision == decision


def test_abandoned_requests_are_not_computed(served):
    async def run():
        batcher = Batcher(asyncio.get_running_loop(), 0, 100)
        work = Work(served, ["a"] * 50, None, asyncio.get_running_loop().create_future())
        batcher.submit(work)
        batcher.abandon(work)
        with pytest.raises(RequestError) as refusal:
            batcher.submit(Work(served, ["a"] * 51, None, work.answers))
        assert refusal.value.status == 429
        assert refusal.value.headers == {"Retry-After": "1"}

    asyncio.run(run())


def test_models_are_named_by_their_folders():
    given = ["models/triage", "s3://bucket/spam/?region=x", "a=b=c", "./x y", "hf://org/name@rev"]
    assert named_models(given) == {
        "triage": "models/triage",
        "spam": "s3://bucket/spam/?region=x",
        "a": "b=c",
        "x-y": "./x y",
        "name": "hf://org/name@rev",
    }
    with pytest.raises(SettingsError, match="two models with the name 'a'"):
        named_models(["a=models/x", "a=models/y"])
