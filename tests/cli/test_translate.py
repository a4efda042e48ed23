"""`bertcnn translate`, as people type it: pairs, translations and alignments."""

import json

import pytest

from bertcnn.tasks.translation.translator import Translator
from tests.cli.outcomes import left, refused
from tests.tasks.kinds import TRANSLATOR, saved
from tests.tasks.small_pairs import small_pairs


@pytest.fixture(scope="module")
def model(shallow_encoder_folder):
    """A saved translator; do not write to its folder."""
    return saved(TRANSLATOR, shallow_encoder_folder)


@pytest.fixture(scope="module")
def translator(model):
    return Translator.load(model)


def write_pairs(path, *more):
    """Write the small pairs and more lines."""
    pairs = ["\t".join(pair) for pair in zip(*small_pairs(), strict=True)]
    path.write_text("\n".join([*pairs, *more]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path):
    return write_pairs(tmp_path / "pairs.tsv")


def lines(out):
    return [line.split("\t") for line in out.splitlines()]


# === translate train ===


def test_a_line_that_is_no_pair_is_refused_with_its_number(run, tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv", "seven\t7\tsept")
    command = ("translate", "train", pairs, "--out", tmp_path / "model")
    refused(run(*command), "line 37 of", "3 columns", "--source and --target")
    assert left(tmp_path) == ["pairs.tsv"]


def test_options_of_the_network_are_saved_or_refused(run, pairs):
    command = ("translate", "train", pairs, "--out", pairs.parent / "model", "--epochs", "1")
    refused(run(*command, "--model", "lstm"), "architecture 'lstm'", "transformer, recurrent")
    refused(run(*command, "--pieces", "0"), "vocabulary_size", "'0'")
    assert left(pairs.parent) == ["pairs.tsv"]
    code, _, err = run(*command, "--model", "recurrent", "--pieces", "40")
    assert code == 0, err
    config = json.loads((pairs.parent / "model" / "config.json").read_text())
    assert config["model"]["architecture"] == "recurrent"
    assert config["training"]["vocabulary_size"] == 40


# === translate ===


def test_a_line_for_each_text_has_its_translation_and_score(run, model, translator):
    given = ["two and five", "", "one\tand\nsix"]
    code, out, err = run("translate", model, *given)
    assert (code, err) == (0, "")
    found = [translator.translate([text])[0] for text in given]
    assert lines(out) == [
        [one.text, f"{one.score:.3f}", " ".join(text.split())]
        for one, text in zip(found, given, strict=True)
    ]
    assert found[0].text
    assert lines(out)[1] == ["", "0.000", ""]


def test_the_word_text_may_be_left_out(run, model):
    short = run("translate", model, "two and five")
    assert run("translate", "text", model, "two and five") == short
    assert short[0] == 0


def test_alternatives_follow_their_translation(run, model, translator):
    code, out, _ = run("translate", model, "--alternatives", "two and five", "")
    (found,) = translator.translate(["two and five"])
    assert code == 0
    assert found.alternatives
    assert lines(out) == [
        [found.text, f"{found.score:.3f}", "two and five"],
        *([text, f"{score:.3f}", ""] for text, score in found.alternatives),
        ["", "0.000", ""],
    ]
    _, out, _ = run("translate", model, "--alternatives", "--beam", "1", "two and five")
    assert [cells[2] for cells in lines(out)] == ["two and five"]


def test_an_alignment_is_a_page_that_is_not_overwritten_by_chance(run, model, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run("translate", "text", model, "two and five", "", "--alignment", page)
    assert (code, len(lines(out)), err) == (0, 2, "")
    first = page.read_text(encoding="utf-8")
    assert first.count("<table>") == 1
    refused(run("translate", model, "<b>one</b>", "--alignment", page), "exists", "--force")
    assert page.read_text(encoding="utf-8") == first
    assert run("translate", model, "<b>one</b>", "--alignment", page, "--force")[0] == 0
    assert "&lt;b&gt;one" in page.read_text(encoding="utf-8")
    refused(run("translate", model, "one", "--alignment", tmp_path / "nowhere" / "page.html"))
    refused(run("translate", model, "one", "--alignment", tmp_path), "folder")
    refused(run("translate", model, "one", "--alignment", model / "page.html"), "has saved")
    assert left(tmp_path) == ["page.html"]


def test_a_beam_of_no_width_is_refused_before_any_work(run, model, tmp_path):
    for words in (("one", "--alignment", tmp_path / "page.html"), ("one",)):
        result = run("translate", model, *words, "--beam", "0")
        refused(result, "beam 0", "1 or more")
        assert result[1] == ""
    (tmp_path / "in.csv").write_text("text\none\n")
    command = ("translate", "run", model, tmp_path / "in.csv", tmp_path / "out.csv")
    refused(run(*command, "--beam", "0"), "beam 0")
    assert left(tmp_path) == ["in.csv"]


def test_the_help_explains_that_a_word_may_be_left_out(run):
    code, out, _ = run("translate", "--help")
    assert code == 0
    assert "translate MODEL [TEXT]..." in " ".join(out.split())
    for words in (("text", "--help"), ("some/model", "--help")):
        code, out, _ = run("translate", *words)
        assert code == 0
        assert "the word text may be left out" in " ".join(out.replace("`", "").split())


# === translate evaluate ===


def test_evaluate_compares_with_given_translations(run, model, translator, tmp_path):
    sources, _ = small_pairs()
    written = [one.text for one in translator.translate(sources[:12])]
    table = "".join(f"{one},{other}\n" for one, other in zip(sources, written, strict=False))
    (tmp_path / "same.csv").write_text(f"from,to\n{table}", encoding="utf-8")
    command = ("translate", "evaluate", model, tmp_path / "same.csv")
    code, out, err = run(*command, "--source", "from", "--target", "to")
    assert (code, out) == (0, "12 pairs: 100.0% translated exactly, chrF 100.0\n"), err
    changed = write_pairs(tmp_path / "pairs.tsv")
    code, out, err = run("translate", "evaluate", model, changed, "--beam", "1", "--json")
    assert code == 0, err
    figures = json.loads(out.splitlines()[0])
    assert figures["pairs"] == len(sources)
    assert 0 <= figures["exact"] <= 1
    assert 0 <= figures["chrf"] <= 100
    refused(run(*command), "--source and --target")
