"""The one error family: what was given, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable

from bertcnn.wording import visible

_LONGEST_MESSAGE = 600


class BertCNNError(Exception):
    """An error a user can act on, told in one line, in which control characters are replaced.

    Args:
        given: what was found, with the offending value ("tickets.csv has 1 label: 'billing'").
        expected: what should have been there ("at least 2 different labels").
        fix: what to do now ("add rows of another label, or name another column with --label").

    Example:
        >>> print(BertCNNError("0 rows in a.csv", expected="at least 1 row", fix="check the file"))
        0 rows in a.csv; expected at least 1 row. What to do: check the file.
    """

    def __init__(self, given: str, *, expected: str, fix: str) -> None:
        self.given, self.expected, self.fix = given, expected, fix
        message = visible(
            " ".join(
                f"{given}; expected {expected}. What to do: {fix}{'' if fix.endswith('?') else '.'}".split()
            )
        )
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 3] + "..."
        super().__init__(message)

    def __reduce__(
        self,
    ) -> tuple[Callable[..., BertCNNError], tuple[type[BertCNNError], str, str, str]]:
        """For pickle, by which an error comes out of another process."""
        return _rebuilt, (type(self), self.given, self.expected, self.fix)


def _rebuilt(kind: type[BertCNNError], given: str, expected: str, fix: str) -> BertCNNError:
    return kind(given, expected=expected, fix=fix)


class SettingsError(BertCNNError):
    """A setting or an argument with a value that cannot work."""


class TableError(BertCNNError):
    """A data file that cannot be read, or holds nothing that can be used."""


class ColumnError(TableError):
    """A column that is missing, or a guess that found none."""


class LabelError(TableError):
    """Labels that cannot be learned from: one only, too few rows, unknown ones."""


class OutputError(BertCNNError):
    """A place that cannot be written: it exists, is read-only, or the disk is full."""


class BundleError(BertCNNError):
    """A model folder that is not one, or is not what was saved."""


class EncoderError(BertCNNError):
    """A pretrained encoder that is unknown, cannot be fetched, or does not fit."""


class TrainingError(BertCNNError):
    """Training cannot go on."""


class ExportError(BertCNNError):
    """A model that cannot be exported.

    A package is missing, or the exported one answers otherwise.
    """


def one_line(value: object, longest: int = 80) -> str:
    """`value` in quotes, on one line, cut to `longest` characters, for use in a message."""
    text = repr(str(value))
    return text if len(text) <= longest else text[: longest - 4] + "..." + text[-1]
