"""Spurious tokens."""

import numpy as np

from bertcnn.reports.spurious_tokens import find_spurious_tokens


def nothing(texts):
    return np.zeros((len(texts), 3, 2), int)


def rows(each=30):
    """Tickets of two labels; billing tickets have a code, most hardware tickets an agent's name."""
    texts, labels = [], []
    for row in range(each):
        texts += [
            f"please look at number {row} of my invoices, INC-{100 + row}",
            f"it is dead again, {'asked Sandra' if row % 3 else 'asked her'}",
        ]
        texts[-1] += f" for the {row}th time"
        labels += ["billing", "hardware"]
    return texts, labels


def test_codes_and_names_tied_to_a_label_are_found():
    found = {(mark.kind, mark.word): mark for mark in find_spurious_tokens(*rows(), nothing)}
    code, name = found["code", "INC-###"], found["name", "Sandra"]
    assert (code.label, code.texts, code.with_label) == ("billing", 30, 30)
    assert (name.label, name.used) == ("hardware", False)


def test_tokens_that_the_model_uses_come_first():
    def names_it(texts):
        found = nothing(texts)
        for row, text in enumerate(texts):
            if "Sandra" in text:
                found[row, 1] = text.index("Sandra") + 2, text.index("Sandra") + 30
        return found

    first, *others = find_spurious_tokens(*rows(), names_it)
    assert (first.word, first.used, first.named, first.looked_into) == ("Sandra", True, 6, 6)
    assert others
    assert not any(mark.used for mark in others)


def test_a_word_in_fewer_than_three_different_texts_is_never_reported():
    texts, labels = (
        [
            "dear Sandra, the bill",
            "dear Sandra, the bill",
            "write Sandra a mail",
        ]
        * 20,
        ["billing"] * 60,
    )
    texts, labels = texts + [f"router {row}" for row in range(60)], labels + ["hardware"] * 60
    assert find_spurious_tokens(texts, labels, nothing) == ()


def test_ordinary_words_and_words_without_a_label_are_not_reported():
    words = [("Router", "hardware") if row % 2 else ("Invoice", "billing") for row in range(60)]
    texts = [
        f"{word} is off. {word}, says Sandra, 4711 no {row}" for row, (word, _) in enumerate(words)
    ]
    assert find_spurious_tokens(texts, [label for _, label in words], nothing) == ()


def test_random_codes_are_rarely_reported_among_many_labels():
    generator, told = np.random.default_rng(0), 0
    for _ in range(40):
        codes, labels = generator.integers(0, 100, 600), generator.integers(0, 40, 600)
        texts = [
            f"text {row} about AB{'CDEFGHIJKL'[code // 10]}-{'MNOPQRSTUV'[code % 10]}_1"
            for row, code in enumerate(codes)
        ]
        told += find_spurious_tokens(texts, [f"label {label}" for label in labels], nothing) != ()
    assert told <= 5
