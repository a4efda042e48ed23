"""The project's exceptions: their messages say what was given, what was expected, what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bertcnn.wording import visible

_LONGEST_MESSAGE = 600
# advice for a missing package that no list names
_OTHERS = {
    "tensorflow_text": ("it, which Windows does not have", "pip install tensorflow-text"),
    "torch": ("a Keras backend that bertcnn supports", "set KERAS_BACKEND=tensorflow"),
}


class BertCNNError(Exception):
    """An error a user can act on, in one line with control characters replaced.

    Args:
        given: what was given, with the wrong value ("tickets.csv has 1 label: 'billing'").
        expected: what was expected instead ("at least 2 different labels").
        fix: what to do now ("add rows of another label, or name another column with --label").
        passes: whether the same call may succeed later, for example after a full disk or another
            run.

    Example:
        >>> print(BertCNNError("0 rows in a.csv", expected="at least 1 row", fix="check the file"))
        0 rows in a.csv; expected at least 1 row. What to do: check the file.
    """

    def __init__(self, given: str, *, expected: str, fix: str, passes: bool = False) -> None:
        self.given, self.expected, self.fix, self.passes = given, expected, fix, passes
        end = "" if fix.endswith("?") else "."
        sentence = f"{given}; expected {expected}. What to do: {fix}{end}"
        message = visible(" ".join(sentence.split()))
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 3] + "..."
        super().__init__(message)

    def __reduce__(self) -> tuple[Callable[..., BertCNNError], tuple[type[BertCNNError], object]]:
        """Make it picklable, so that a worker process can raise it in its parent."""
        words = {"expected": self.expected, "fix": self.fix, "passes": self.passes}
        return _rebuild, (type(self), (self.given, words))


def _rebuild(kind: type[BertCNNError], given: tuple[str, dict[str, Any]]) -> BertCNNError:
    return kind(given[0], **given[1])


class SettingsError(BertCNNError):
    """A setting or an argument with an invalid value."""


class TableError(BertCNNError):
    """A data file that cannot be read or has no usable rows."""


class ColumnError(TableError):
    """A column that is missing or cannot be guessed."""


class LabelColumnError(ColumnError):
    """A table with labels whose only candidate column for them is used as text."""


class LabelError(TableError):
    """Labels that cannot be used: only one label, too few rows, or unknown labels."""


class OutputError(BertCNNError):
    """An output that cannot be written: it exists, is read-only, or the disk is full."""


class BundleError(BertCNNError):
    """A folder that is not a model, or a model that was changed after it was saved."""


class EncoderError(BertCNNError):
    """A pretrained encoder that is unknown, cannot be fetched, or does not fit."""


class TrainingError(BertCNNError):
    """Training that cannot continue."""


class ExportError(BertCNNError):
    """An export that cannot be written, or whose answers differ from the model's."""


class DatabaseError(BertCNNError):
    """A database that cannot be used, or an unsuitable query or table."""


class StoreError(BertCNNError):
    """A review store that cannot be used, or an unknown ticket, label or model."""


class ClusterError(BertCNNError):
    """A Ray cluster that cannot be reached, or whose nodes do not match."""


class RoleError(BertCNNError):
    """An action that a person's role does not allow."""


class MissingPackageError(BertCNNError, ImportError):
    """A package that is not installed."""


def missing_package(package: str) -> MissingPackageError:
    """The error for a missing Python package, with the command that installs it.

    The command names packages, so it works however bertcnn was installed.

    Example:
        >>> missing_package("optuna").fix
        "pip install 'optuna>=5'"
    """
    from importlib import metadata  # takes longer to import than everything else here

    lists: dict[str, dict[str, str]] = {"": {}}  # by extra; "" is the plain install
    with suppress(metadata.PackageNotFoundError):  # running from a source folder
        for line in metadata.requires("bertcnn") or []:
            requirement, _, marker = line.partition(";")
            extra = (re.findall(r'extra == "(.*?)"', marker) or [""])[0]
            lists.setdefault(extra, {})[_name(requirement)] = f"'{requirement.strip()}'"
    own = _name((metadata.packages_distributions().get(package) or [package])[0])
    extra = next((extra for extra, wanted in lists.items() if own in wanted), "")
    installed = {_name(one.name) for one in metadata.distributions()}
    missing = [text for name, text in lists[extra].items() if name not in installed]
    expected, fix = _OTHERS.get(package) or (
        f'bertcnn with its extra "{extra}"' if extra else "the full install of bertcnn",
        f"pip install {' '.join(missing or [lists[extra].get(own, own)])}",
    )
    return MissingPackageError(
        f"the package {package} is not installed", expected=expected, fix=fix
    )


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


@contextmanager
def explain_missing_packages() -> Iterator[None]:
    """Convert a missing import in the block into a MissingPackageError."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "bertcnn"):
            raise
        raise missing_package(package) from None


def one_line(value: object, longest: int = 80) -> str:
    """`value` in quotes, on one line, cut to `longest` characters, for a message."""
    text = repr(str(value))
    return text if len(text) <= longest else text[: longest - 4] + "..." + text[-1]
