"""`bertcnn translate`, as people type it: translations, one-line errors, no half-written files."""

import json

import pytest

from bertcnn.bundle.bundle import write_bundle
from bertcnn.tasks.translation.translator import Translator
from tests.failpoints import tiny_bundle
from tests.tasks.small_pairs import QUICK, SHORT, small_pairs


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved translator with little training; do not write to its folder."""
    folder = tmp_path_factory.mktemp("translator") / "model"
    Translator(model=SHORT, training={**QUICK, "epochs": 1}).fit(*small_pairs()).save(folder)
    return folder


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


def refused(result, *words):
    """Assert that the command printed one line with these words and exit code 2."""
    code, _, err = result
    last = err.strip().splitlines()[-1]
    assert code == 2, err
    assert last.startswith("bertcnn: ")
    assert "Traceback" not in err
    for word in ("expected", "What to do", *words):
        assert word in last, last


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def lines(out):
    return [line.split("\t") for line in out.splitlines()]


# === translate train ===


def test_train_says_how_well_it_translates_and_what_comes_next(run, pairs):
    out = pairs.parent / "model"
    options = ("--model", "recurrent", "--epochs", "1", "--pieces", "40", "--seed", "3")
    code, told, err = run("translate", "train", pairs, "--out", out, *options)
    assert (code, told) == (0, ""), err
    assert "pairs to learn from, 4 held out to choose the epoch; " in err
    assert f"Saved {out} (model " in err
    assert "On 4 validation pairs " in err
    assert err.splitlines()[-1] == f"Next: bertcnn translate {out} 'one and one'"
    assert not any(character in err for character in "\x1b\r")
    assert left(pairs.parent) == ["model", "pairs.tsv"]
    config = json.loads((out / "config.json").read_text())
    assert (config["model"]["architecture"], config["seed"]) == ("recurrent", 3)
    assert (config["training"]["epochs"], config["training"]["vocabulary_size"]) == (1, 40)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("seven\t7\tsept", ("line 37 of", "3 columns", "--source and --target")),
        ("seven", ("line 37 of", "1 columns")),
        ("seven\t ", ("pair 37, whose translation is",)),
        ("\t7", ("pair 37, whose text is empty",)),
    ],
    ids=["three columns", "one column", "no translation", "no text"],
)
def test_a_line_that_is_no_pair_is_refused_with_its_number(run, tmp_path, line, words):
    pairs = write_pairs(tmp_path / "pairs.tsv", line)
    refused(run("translate", "train", pairs, "--out", tmp_path / "model"), *words)
    assert left(tmp_path) == ["pairs.tsv"]


def test_files_that_will_not_do_are_refused_in_one_line(run, tmp_path):
    contents = {
        "missing.tsv": (None, "missing.tsv"),
        "empty.tsv": (b"", "0 pairs"),
        "few.tsv": (b"one\t1\n" * 19, "19 pairs"),
        "latin.tsv": ("é\t1\n".encode("latin-1") * 30, "UTF-8"),
    }
    for name, (content, word) in contents.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        refused(run("translate", "train", tmp_path / name, "--out", tmp_path / "model"), word)
    refused(run("translate", "train", tmp_path, "--out", tmp_path / "model"), str(tmp_path))
    assert left(tmp_path) == ["empty.tsv", "few.tsv", "latin.tsv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "lstm"), ("architecture 'lstm'", "transformer, recurrent")),
        (("--epochs", "0"), ("epochs", "'0'")),
        (("--pieces", "0"), ("vocabulary_size", "'0'")),
        (("--seed", "-1"), ("seed -1",)),
    ],
    ids=["model", "epochs", "pieces", "seed"],
)
def test_options_that_cannot_work_are_one_line_and_leave_nothing(run, pairs, options, words):
    refused(run("translate", "train", pairs, "--out", pairs.parent / "model", *options), *words)
    assert left(pairs.parent) == ["pairs.tsv"]


def test_a_folder_that_is_taken_is_refused_before_the_training(run, model, pairs):
    refused(run("translate", "train", pairs, "--out", model), "saved translator", "--force")
    write_bundle(tiny_bundle(), pairs.parent / "classifier")
    taken = ("translate", "train", pairs, "--out", pairs.parent / "classifier")
    refused(run(*taken))
    refused(run(*taken, "--force"))
    refused(run("translate", "train", pairs, "--out", pairs / "below-a-file"))
    assert left(pairs.parent) == ["classifier", "pairs.tsv"]


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


def test_without_texts_the_lines_of_standard_input_are_translated(run, model, translator):
    code, out, err = run("translate", model, stdin="\ufefftwo and five\r\none and six")
    assert (code, err) == (0, "")
    found = [translator.translate([text])[0] for text in ("two and five", "one and six")]
    assert lines(out) == [[one.text, f"{one.score:.3f}", one.source] for one in found]
    assert run("translate", model, stdin="") == (0, "", "")


def test_the_word_text_may_be_left_out(run, model):
    short = run("translate", model, "two and five")
    assert run("translate", "text", model, "two and five") == short
    assert short[0] == 0
    code, out, _ = run("translate", model, "- two and five", "-")
    assert (code, [cells[2] for cells in lines(out)]) == (0, ["- two and five", "-"])
    for arguments in (["two", "--alternative"], ["--beams=2", "two"], ["-two"]):
        code, out, err = run("translate", model, *arguments)
        assert (code, out) == (2, "")
        assert "No such option" in err


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


def test_models_and_beams_that_will_not_do_are_refused(run, model, encoder_folder, tmp_path):
    for beam in ("0", "-1"):
        result = run(
            "translate", model, "one", "--beam", beam, "--alignment", tmp_path / "page.html"
        )
        refused(result, f"beam {beam}", "1 or more")
        assert result[1] == ""
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    for folder, word in (
        (tmp_path / "classifier", "holds a 'bertcnn bundle'; expected a bertcnn translator"),
        (tmp_path / "nowhere", "nowhere"),
        (encoder_folder, "manifest.json"),
    ):
        refused(run("translate", folder, "one"), word)
    refused(run("classify", model, "one"), "holds a 'bertcnn translator'")
    assert left(tmp_path) == ["classifier"]


def test_help_names_both_commands(run):
    code, out, _ = run("translate", "--help")
    assert code == 0
    assert " train " in out
    assert " text " in out
    assert "translate MODEL [TEXT]..." in " ".join(out.split())
    assert " translate " in run("--help")[1]
    for words in (("text", "--help"), ("some/model", "--help")):
        code, out, _ = run("translate", *words)
        assert code == 0
        assert "the word text may be left out" in " ".join(out.replace("`", "").split())
    code, out, err = run("translate")
    assert "train" in out + err
    assert code == 2


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
    assert 0 <= figures["exact"] < 1
    assert 0 <= figures["chrf"] < 100
    refused(run(*command), "--source and --target")


# === translate run ===


def test_run_translates_a_file(run, model, translator, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("id,body\n1,two and five\n2,\n", encoding="utf-8")
    command = ("translate", "run", model, source, target, "--text", "body")
    code, out, err = run(*command)
    assert (code, out) == (0, ""), err
    assert f"Wrote {target}: 2 rows in " in err
    assert "in the new column translation." in err
    assert "1 row without a text got no translation." in err
    text = translator.translate(["two and five"])[0].text
    assert target.read_text(encoding="utf-8").split() == [
        "id,body,translation",
        *f"1,two and five,{text}".split(),
        "2,,",
    ]
    refused(run(*command), "exists", "--force")
    code, out, err = run(*command, "--force", "--json")
    assert (code, json.loads(out.splitlines()[0])["rows"]) == (0, 2), err
    refused(run("translate", "run", model, source, tmp_path / "o.csv", "--beam", "0"), "beam 0")
    assert left(tmp_path) == ["in.csv", "out.csv"]
