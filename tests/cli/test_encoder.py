"""`bertcnn encoder export` and `compare`, and `bertcnn fill-mask`."""

from tests.pretraining.test_fill_mask import write
from tests.tickets import as_csv, tickets


def test_an_exported_encoder_fills_masks(run, tmp_path):
    write(tmp_path / "encoder")
    code, _, err = run("encoder", "export", tmp_path / "encoder", "--to", tmp_path / "out")
    assert (code, err) == (
        0,
        (
            f"Exported {tmp_path / 'out'} (encoder, with the pooler and the MLM head and the NSP"
            " head).\n"
        ),
    )
    code, out, err = run("fill-mask", tmp_path / "out", "Rome is the [MASK] of Italy.", "--best", 2)
    assert (code, out) == (0, "1\tcapital\t0.6000\n1\tking\t0.2800\n"), err
    code, out, err = run("encoder", "export", tmp_path / "encoder", "--to", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "holds an encoder already" in err


def test_an_encoder_without_mlm_head_is_reported(run, tmp_path):
    write(tmp_path / "encoder", heads=())
    code, _, err = run("encoder", "export", tmp_path / "encoder", "--to", tmp_path / "out")
    assert code == 0
    assert err.endswith(
        "with no head).\nIt has no MLM head: AutoModelForMaskedLM will initialise a new head.\n"
    )
    code, out, err = run("fill-mask", tmp_path / "out", "Rome is the [MASK] of Italy.")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("bertcnn: the encoder 'out' has no MLM head")
    assert "What to do: give bert-base-uncased, " in err


def test_encoders_to_be_compared_are_looked_for_by_name_before_the_first_training(run, tmp_path):
    write(tmp_path / "encoder")
    (tmp_path / "data.csv").write_text(as_csv(*tickets()))
    code, out, err = run(
        "encoder", "compare", tmp_path / "encoder", "minilm-l7", tmp_path / "data.csv"
    )
    assert (code, out) == (2, "")
    assert "minilm-l6" in err
    assert "seed 0" not in err


def test_too_few_seeds_for_a_comparison_are_named_as_they_were_given(run, tmp_path):
    write(tmp_path / "encoder")
    (tmp_path / "data.csv").write_text(as_csv(*tickets()))
    words = (tmp_path / "encoder", tmp_path / "encoder", tmp_path / "data.csv")
    code, _, err = run("encoder", "compare", *words, "--seeds", "1")
    assert code == 2
    assert err.startswith("bertcnn: --seeds 1;")
