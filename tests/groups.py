"""Groups of slow tests, which run at night and where a changed path belongs to them.

`make test` runs all other tests; `make test-all` runs everything. `python3 tests/groups.py
COMMIT` prints the groups whose paths have changed since that commit, for continuous integration.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

ALL = "all"


@dataclass(frozen=True)
class Group:
    """Tests, by the beginnings of their ids, and the beginnings of the paths that they test."""

    tests: tuple[str, ...]
    paths: tuple[str, ...]


GROUPS = {
    "browser": Group(
        tests=("tests/apps/test_",),
        paths=("apps/", "bertcnn/review/", "tests/apps/"),
    ),
    "deploy": Group(
        tests=("tests/packaging/", "tests/apps/test_train_new_labels.py"),
        paths=("deploy/", "pyproject.toml", "constraints.txt", "apps/train", "tests/packaging/"),
    ),
    "jax": Group(
        tests=("tests/test_jax.py", "tests/training/test_several_devices.py"),
        paths=("bertcnn/backend.py", "bertcnn/layers/", "bertcnn/models/", "bertcnn/training/"),
    ),
    "documents": Group(
        tests=tuple(
            f"tests/test_documents.py::test_{name}"
            for name in ("a_notebook", "the_commands_of_a_page", "the_python_of_a_page")
        ),
        paths=("notebooks/", "docs/", "README.md", "data/", "apps/train"),
    ),
    "downloads": Group(
        tests=("tests/encoders/test_download.py",),
        paths=("bertcnn/encoders/",),
    ),
    "exports": Group(
        tests=("tests/export/test_export.py", "tests/export/test_graph_tokenizer.py"),
        paths=("bertcnn/export/", "bertcnn/models/", "bertcnn/inference/onnx_graph.py"),
    ),
    "kills": Group(
        tests=(
            "tests/scoring/test_resume.py",
            "tests/review/test_store_kills.py",
            "tests/training/test_savepoints.py",
            "tests/inference/test_forks.py",
        ),
        paths=("bertcnn/scoring/", "bertcnn/storage/", "bertcnn/training/savepoints.py"),
    ),
    "ray": Group(
        tests=("tests/scoring/test_cluster.py",),
        paths=("bertcnn/scoring/cluster.py", "bertcnn/scoring/node.py", "bertcnn/scoring/ray_"),
    ),
    "tasks": Group(
        tests=(
            "tests/tasks/test_task_",
            "tests/tasks/test_translator.py",
            "tests/cli/test_task_commands.py",
            "tests/cli/test_translate.py",
        ),
        paths=(
            "bertcnn/models/",
            "bertcnn/training/",
            "bertcnn/tasks/",
            *(
                f"bertcnn/cli/{name}.py"
                for name in ("language_model", "qa", "summarise", "tasks", "tokens", "translate")
            ),
        ),
    ),
    "trainings": Group(
        tests=(
            "tests/test_several_labels.py",
            "tests/training/test_refit.py",
            "tests/training/test_few_shot.py",
            "tests/training/test_cross_fitting.py",
            "tests/training/test_devices.py::test_every_recipe_learns_in_bfloat16",
            "tests/training/test_sample_weight.py",
            *(
                f"tests/test_classifier.py::test_{name}"
                for name in (
                    "few_shot_uses_rows_without_a_label",
                    "long_and_blank_rows",
                    "with_few_rows_a_refit",
                    "decisions_are_made_before_the_refit",
                    "requested_epochs_are_kept",
                    "a_part_of_the_rows",
                )
            ),
            "tests/workflows/",
            "tests/cli/test_tune.py",
            "tests/cli/test_review.py::test_a_new_model_is_trained",
            "tests/apps/test_whole_loop.py",
        ),
        paths=(
            "bertcnn/training/",
            "bertcnn/workflows/",
            "bertcnn/classifier.py",
        ),
    ),
    "wordpiece": Group(
        tests=("tests/text/test_wordpiece_golden.py",),
        paths=("bertcnn/text/",),
    ),
}


def group_of(test: str) -> str | None:
    """The group of a test, by the longest beginning of its id; None for those that always run."""
    begun = [
        (len(beginning), name)
        for name, group in GROUPS.items()
        for beginning in group.tests
        if test.startswith(beginning)
    ]
    return max(begun)[1] if begun else None


def changed_since(commit: str) -> list[str]:
    """The groups with a path that differs from a commit; all of them if it is unknown here."""
    found = subprocess.run(
        ["git", "diff", "--name-only", commit], capture_output=True, text=True, check=False
    )
    if found.returncode:
        return [ALL]
    paths = found.stdout.splitlines()
    return [
        name
        for name, group in GROUPS.items()
        if any(path.startswith((*group.paths, *group.tests)) for path in paths)
    ]


if __name__ == "__main__":
    print(",".join(changed_since(sys.argv[1])))  # noqa: T201 - its result
