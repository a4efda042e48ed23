"""Pairs of texts: reading, splitting, refusals."""

import pytest

from bertcnn.errors import ColumnError, SettingsError, TableError
from bertcnn.tasks.pairs import Pairs, read_pairs
from tests.tasks.small_pairs import small_pairs


def test_a_file_of_pairs_is_read(tmp_path):
    sources, targets = small_pairs()
    lines = [f"{one}\t{other}" for one, other in zip(sources, targets, strict=True)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\ufeff" + "\n".join([*lines[:9], "", *lines[9:]]) + "\r\n", encoding="utf-8")
    assert read_pairs(path) == Pairs(sources, targets)


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_signs_that_end_no_line_stay_in_their_text(tmp_path, sign):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(f"one{sign}two\tthree{sign}four\r\n".encode() * 20)
    assert read_pairs(path) == Pairs([f"one{sign}two"] * 20, [f"three{sign}four"] * 20)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb\tc", r"line 30 of .* with 3 columns .*; expected a text, a tab and its translation"),
        ("a b", r"line 30 of .* with 1 columns"),
        ("a\t ", r"pair 30, whose translation is .*; expected a text on both sides"),
        ("\tb", r"pair 30, whose text is empty"),
    ],
)
def test_a_line_that_is_no_pair_is_refused_with_its_number(tmp_path, line, message):
    path = tmp_path / "pairs.tsv"
    path.write_text("x\ty\n" * 29 + line + "\n")
    with pytest.raises(TableError, match=message):
        read_pairs(path)


def test_too_few_pairs_or_two_unequal_lists_are_refused(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("x\ty\n" * 19)
    with pytest.raises(TableError, match="19 pairs; expected at least 20"):
        read_pairs(path)
    for sources, targets in ((["a"], ["b", "c"]), ("a", "b")):
        with pytest.raises(TableError, match="two lists of equal length"):
            Pairs.of(sources, targets)
    with pytest.raises(TableError, match="pair 1, whose translation is '3'"):
        Pairs.of(["a"], [3])


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "latin.tsv").write_bytes("è\té\n".encode("latin-1"))
    for name in ("latin.tsv", "missing.tsv", "."):
        with pytest.raises(TableError, match=r"cannot be read .*; expected a text file in UTF-8"):
            read_pairs(tmp_path / name)


def test_no_text_is_on_both_sides_of_a_split():
    sources = [f"text {row // 2}" for row in range(60)]
    targets = [f"word {row // 3}" for row in range(60)]
    kept, held_out = Pairs(sources, targets).split(0.2, 100, seed=3)
    assert len(held_out) == 12
    assert 0 < len(kept) < 48
    assert not set(kept.sources) & set(held_out.sources)
    assert not set(kept.targets) & set(held_out.targets)
    assert Pairs(sources, targets).split(0.2, 100, seed=3) == (kept, held_out)
    assert len(Pairs(sources, targets).split(0.2, 5, seed=3)[1]) == 5


@pytest.mark.parametrize("header", ["english\titalian", "EN\tit", "Source\tTarget"])
def test_a_header_is_not_learned_as_a_pair(tmp_path, header):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{header}\n" + "house\tcasa\n" * 20, encoding="utf-8")
    assert read_pairs(path) == Pairs(["house"] * 20, ["casa"] * 20)


def test_a_first_pair_of_single_words_is_kept(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("hello\tciao\n" + "house\tcasa\n" * 20, encoding="utf-8")
    assert len(read_pairs(path)) == 21


def test_columns_of_a_table_are_named(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = "".join(f'{row},"one, two","uno, due"\n' for row in range(20))
    path.write_text(f"id,english,italian\n{rows}", encoding="utf-8")
    pairs = read_pairs(path, source="english", target="italian")
    assert pairs == Pairs(["one, two"] * 20, ["uno, due"] * 20)
    with pytest.raises(ColumnError, match="french"):
        read_pairs(path, source="english", target="french")
    with pytest.raises(SettingsError, match="name both with --source and --target"):
        read_pairs(path, source="english")
    with pytest.raises(TableError, match="name the columns of a table with --source and --target"):
        read_pairs(path)
