"""Agreement against textbook values, scikit-learn and a simulation."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from bertcnn.review.statistics.agreement import Agreement, measure_agreement

# Krippendorff (2011), sections B and C: one string per observer, "." for a missing value
BINARY = ("0100000010", "1110010000")
NOMINAL = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def tickets_of(observers):
    return [
        {f"p{person}": label for person, label in enumerate(labels) if label != "."}
        for labels in zip(*observers, strict=True)
    ]


@pytest.mark.parametrize(("observers", "alpha"), [(BINARY, 0.095), (NOMINAL, 0.743)])
def test_alpha_equals_the_examples_of_its_author(observers, alpha):
    found = measure_agreement(tickets_of(observers))
    assert found.all.value == pytest.approx(alpha, abs=5e-4)
    assert found.all.low < found.all.value < found.all.high
    assert found.all.tickets == sum(len(one) > 1 for one in tickets_of(observers))


def test_kappa_equals_that_of_scikit_learn():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 4, 300)
    second = np.where(rng.random(300) < 0.7, first, rng.integers(0, 4, 300))
    found = measure_agreement(
        [{"ann": str(a), "bob": str(b)} for a, b in zip(first, second, strict=True)]
    )
    (kappa,) = found.pairs.values()
    assert kappa.value == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
    assert kappa.low < kappa.value < kappa.high


def test_a_label_that_people_confuse_agrees_less():
    decisions = [{"ann": "bill", "bob": "bill"}] * 20 + [{"ann": "app", "bob": "app"}] * 10
    decisions += [{"ann": "app", "bob": "router"}, {"ann": "router", "bob": "app"}] * 5
    found = measure_agreement(decisions)
    assert found.labels["bill"].value == 1
    assert found.labels["router"].value < 0 < found.labels["app"].value < 1
    assert list(found.pairs) == [("ann", "bob")]


def test_without_tickets_of_two_people_or_with_one_label_nothing_is_claimed():
    assert measure_agreement([]).all == Agreement(None, None, None, 0)
    assert measure_agreement([{"ann": "bill"}]).all.tickets == 0
    same = measure_agreement([{"ann": "bill", "bob": "bill"}] * 9)
    assert same.all == Agreement(None, None, None, 9)
    one = measure_agreement([{"ann": "bill", "bob": "app"}]).all
    assert (one.low, one.tickets) == (None, 1)


def test_the_interval_holds_the_true_value_about_as_often_as_it_says():
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):  # two people are right with probability 0.8 on two equally frequent labels
        true = rng.random(120) < 0.5
        both = [np.where(rng.random(120) < 0.8, true, ~true) for _ in range(2)]
        rows = [{"a": str(x), "b": str(y)} for x, y in zip(*both, strict=True)]
        found = measure_agreement(rows).all
        held += found.low <= 2 * (0.8**2 + 0.2**2) - 1 <= found.high
    assert 0.90 <= held / 200 <= 0.99
