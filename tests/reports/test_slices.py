"""Metrics for slices of the rows."""

import numpy as np

from bertcnn.evaluation.intervals import wilson
from bertcnn.reports.slices import Answered, slice_by_length, slice_by_value


def answered(right):
    right = np.asarray(right, bool)
    return Answered(right, np.where(right, 0.9, 0.5), right)


def test_each_part_has_its_own_figures_and_the_weak_one_is_marked():
    right = np.arange(200) % 2 == 0  # every second one of the first hundred, all of the others
    right[100:] = True
    chat, mail = slice_by_value(["chat"] * 100 + ["mail"] * 100, answered(right))
    assert (chat.name, chat.rows, chat.accuracy, chat.weak) == ("chat", 100, 0.5, True)
    assert (mail.name, mail.accuracy, mail.automatic, mail.weak) == ("mail", 1.0, 1.0, False)
    assert chat.interval == wilson(50, 100)
    assert abs(chat.confidence - 0.7) < 1e-12


def test_values_of_fewer_than_three_rows_are_hidden():
    parts = slice_by_value(
        ["chat"] * 5 + ["Mrs Miller", "Mr Smith", "Ms Young", "", "", ""], answered([True] * 11)
    )
    assert [(part.name, part.rows) for part in parts] == [
        ("chat", 5),
        ("(blank)", 3),
        ("(rare values)", 3),
    ]


def test_no_slice_reveals_one_or_two_rows():
    assert [
        part.name
        for part in slice_by_value(["chat"] * 5 + ["Mrs Miller", ""], answered([True] * 7))
    ] == ["chat"]
    assert [
        part.rows for part in slice_by_length(np.array([3, 4, 5, 5, 5, 6]), answered([True] * 6))
    ] == [3]
    assert slice_by_length(np.array([3, 4, 5, 6]), answered([True] * 4)) == ()
    assert slice_by_length(np.empty(0, int), answered([])) == ()


def test_lengths_make_four_parts_that_hold_all_rows():
    lengths = np.random.default_rng(0).integers(3, 50, 1000)
    parts = slice_by_length(lengths, answered(lengths > 10))
    assert len(parts) == 4
    assert sum(part.rows for part in parts) == 1000
    assert parts[0].weak
    [one] = slice_by_length(np.full(9, 5), answered([True] * 9))
    assert one.name == "5 tokens"


def test_slices_of_many_random_columns_are_rarely_called_weak():
    generator, weak = np.random.default_rng(1), 0
    columns = [[f"v{value}" for value in generator.integers(0, 4, 400)] for _ in range(10)]
    for _ in range(100):
        rows = answered(generator.random(400) < 0.9)
        weak += any(
            part.weak for values in columns for part in slice_by_value(values, rows, columns=10)
        )
    assert weak <= 9
