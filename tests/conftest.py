"""Fixtures for all tests: a tiny encoder on disk, the published one, and the mark `on_jax`."""

import gc
import json
import os
import shutil
import signal
import sqlite3  # noqa: F401 - before TensorFlow, whose own SQLite has no FTS5
import string
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.compiling import name_functions_by_content, remember_matches
from tests.groups import ALL, group_of

# Tiny models compute fast and compile slowly, here and in the child processes, which inherit this.
QUICK_COMPILING = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false"  # the fusion emitters double the compile time
)
# read when TensorFlow or JAX is imported, which comes later
os.environ.setdefault("XLA_FLAGS", QUICK_COMPILING)

# Compiled code is shared between all tests and processes of this run, but not kept: it fits one
# machine and one TensorFlow.
_COMPILED = None if "TF_XLA_FLAGS" in os.environ else tempfile.mkdtemp(prefix="bertcnn-compiled-")
if _COMPILED:
    os.environ["TF_XLA_FLAGS"] = (
        f"--tf_xla_persistent_cache_directory={_COMPILED} --tf_xla_persistent_cache_device_types="
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it warns of each cache entry it reads


def pytest_unconfigure(config):
    if _COMPILED:
        shutil.rmtree(_COMPILED, ignore_errors=True)


def pytest_runtest_setup(item):
    name_functions_by_content()
    remember_matches()


# Tracing creates many objects and few cycles: collecting less often saves a tenth of the time.
gc.set_threshold(50_000)


@pytest.fixture(scope="module", autouse=True)
def _imported_modules_are_not_searched_for_garbage():
    """Streamlit runs the garbage collector after each page run: 0.3 s, almost nothing is freed."""
    gc.collect()
    gc.freeze()


# The first example of a test compiles or loads something, and the machine may be busy.
settings.register_profile(
    "no deadline",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("no deadline")


collect_ignore_glob = ["golden/*"]  # scripts for other environments, not test modules


# A background job of a shell ignores SIGINT; the programs under test must not inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def largest_file():
    """A context in which files cannot grow beyond `size` bytes, as on a full disk."""
    resource = pytest.importorskip("resource")  # only where the system has such limits

    @contextmanager
    def limited(size):
        before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        writes_none, sys.dont_write_bytecode = (
            sys.dont_write_bytecode,
            True,
        )  # Python would keep truncated bytecode
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
            sys.dont_write_bytecode = writes_none

    return limited


# the slowest files first; `make test` distributes files in this order, so that no process ends with
# a long one
_LONGEST = (
    "test_documents.py",
    "test_classifier.py",
    "workflows/test_labelled.py",
    "test_jax.py",
    "test_review_desk.py",
    "test_dashboard.py",
    "cli/test_commands.py",
    "scoring/test_cluster.py",
    "scoring/test_resume.py",
    "workflows/test_tune.py",
    "test_several_labels.py",
    "training/test_refit.py",
    "inference/test_quantization.py",
    "tasks/test_translator.py",
    "tasks/test_task_models.py",
    "cli/test_task_commands.py",
    "apps/test_pages.py",
    "apps/test_review_pages.py",
    "apps/test_payloads.py",
    "cli/test_surroundings.py",
    "inference/test_forks.py",
    "test_wordpiece_golden.py",
    "export/test_export.py",
    "training/test_savepoints.py",
    "training/test_few_shot.py",
    "pretraining/test_pretrain.py",
)


def pytest_addoption(parser):
    parser.addoption(
        "--groups",
        help="run only these groups of tests/groups.py, and the tests of no group; by default all",
    )


def pytest_collection_modifyitems(config, items):
    """Leave out groups that were not asked for, and run the slowest files first."""
    asked = config.getoption("groups")
    if asked not in (None, ALL):
        wanted = {None, *asked.split(",")}
        left_out = [item for item in items if group_of(item.nodeid) not in wanted]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if group_of(item.nodeid) in wanted]

    def place(item):
        return next(
            (
                number
                for number, name in enumerate(_LONGEST)
                if item.path.as_posix().endswith(f"/{name}")
            ),
            len(_LONGEST),
        )

    items.sort(key=place)


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "on_jax: tests/test_jax.py runs this test a second time, with JAX as Keras' backend",
    )


_WORDS = (  # noqa: SIM905
    "the a i my your is are was not no and it to of for on in with that this you me he she they"
    " have has had will can please help call again still since today internet router wifi cable"
    " modem light led red green slow down dead lost app login password error update crash screen"
    " page email bill billed charge charged refund invoice price pay paid money month fee twice"
    " account plan technician box socket power tried nothing working signal tv new old"
).split()
TINY_VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *string.digits,
    *string.punctuation,
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase),
    *(word for word in _WORDS if len(word) > 1),
)


@pytest.fixture(scope="session")
def tiny_vocabulary() -> tuple[str, ...]:
    """About 200 word pieces that can spell every ASCII text."""
    return TINY_VOCABULARY


def write_encoder(folder: Path, layers: int) -> Path:
    """Write an encoder of width 16 with random weights in Hugging Face layout."""
    from safetensors.numpy import save_file

    from bertcnn.encoders.checkpoint import published_name
    from bertcnn.models.bert import Bert
    from bertcnn.models.weights import extract
    from bertcnn.settings import EncoderSettings

    shape = {
        "width": 16,
        "layers": layers,
        "heads": 2,
        "feed_forward_width": 32,
        "max_positions": 64,
    }
    encoder = Bert(EncoderSettings(vocabulary_size=len(TINY_VOCABULARY), **shape), seed=5)
    tensors = {
        published_name(name): (value.T if name.endswith("/kernel") else value).copy()
        for name, value in extract(encoder.weights).items()
    }
    config = {
        "model_type": "bert",
        "vocab_size": len(TINY_VOCABULARY),
        "hidden_size": shape["width"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "intermediate_size": shape["feed_forward_width"],
        "max_position_embeddings": shape["max_positions"],
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(TINY_VOCABULARY) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": True}), encoding="utf-8"
    )
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory) -> Path:
    """An encoder in Hugging Face layout, 2 layers of width 16, with random weights.

    Do not write to it.
    """
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny", layers=2)


@pytest.fixture(scope="session")
def shallow_encoder_folder(tmp_path_factory) -> Path:
    """The same with 1 layer, which halves the compile time of trainings.

    Do not write to it.
    """
    return write_encoder(tmp_path_factory.mktemp("encoders") / "shallow", layers=1)


def shorten_trials(patch: pytest.MonkeyPatch) -> None:
    """Limit a search to heads of one shape, which compile once, and to few epochs."""
    from bertcnn.settings import FROZEN

    short = FROZEN.model_copy(update={"epochs": 8, "fewest_steps": 0})
    patch.setattr("bertcnn.training.recipes.FROZEN", short)
    patch.setattr("bertcnn.workflows.space._WINDOWS", ("2,3,4",))
    patch.setattr("bertcnn.workflows.space._FILTERS", (64, 64))


@pytest.fixture(scope="module")
def quick_trials():
    """`shorten_trials` for a module."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_trials(patch)
        yield


@pytest.fixture(scope="module")
def cpu_with_vnni():
    """Run int8 engines in int8 on any CPU."""
    with pytest.MonkeyPatch.context() as patch:
        flags = "flags : sse2 avx2 avx512f avx512_vnni"
        patch.setattr("bertcnn.inference.compiled.cpu_flags", lambda: flags)
        yield


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The published encoder minilm-l6, fetched once."""
    from bertcnn.encoders.download import fetch_encoder

    return fetch_encoder("minilm-l6").folder
