"""The texts of a request, from strings or from a model's text columns."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bertcnn.errors import one_line
from bertcnn.serving.bodies import refused, too_large
from bertcnn.tables import find_name, join_texts

TEXT: Final = "text"  # the column name for models with at most one text column


class TextColumns:
    r"""The text columns of a model, and the most texts of a request.

    Args:
        names: the text columns of the training file; empty for a model trained on lists of texts.
        most: maximum texts of a request.

    Example:
        >>> columns = TextColumns(("subject", "body"), 100)
        >>> columns.from_rows([{"Subject": "Hello", "body": {"b64": "bm8gc2lnbmFs"}}], "instances")
        ['Hello\nno signal']
    """

    def __init__(self, names: Sequence[str], most: int) -> None:
        self.names, self.most = tuple(names) or (TEXT,), most

    def from_values(self, values: Any, where: str) -> list[str]:  # noqa: ANN401 - any JSON value
        """Texts from strings, one-string lists or objects; else RequestError naming `where`."""
        if not isinstance(values, list):
            raise refused(f"{where} that are no list", "a list of texts")
        check_number(len(values), self.most)
        if values and all(isinstance(value, dict) and "b64" not in value for value in values):
            return self.from_rows(values, where)
        return [
            decoded(value[0] if isinstance(value, list) and len(value) == 1 else value, where)
            for value in values
        ]

    def from_rows(
        self, rows: Sequence[Mapping[str, Any]], where: str, *, is_table: bool = False
    ) -> list[str]:
        """Texts from at most `most` rows with named columns.

        `where` names the values in messages. With `is_table`, other columns are ignored, and null
        is a blank cell.

        Raises:
            RequestError: a row lacks a column, or has others.
        """
        if not rows:
            return []
        keys = rows[0].keys()
        if any(row.keys() != keys for row in rows):
            raise refused(f"rows in {where} that have different names", "the same in each row")
        names = self._find([*keys], where, is_table=is_table)
        return [self._joined([row[name] for name in names], where, is_table) for row in rows]

    def from_columns(
        self, columns: Mapping[str, Any], where: str, *, is_table: bool = False
    ) -> list[str]:
        """Like `from_rows`, from one list of cells per column."""
        names = self._find([*columns], where, is_table=is_table)
        lists = [columns[name] for name in names]
        if not all(isinstance(cells, list) and len(cells) == len(lists[0]) for cells in lists):
            raise refused(f"{where} that are not lists of one length", "a list for each column")
        check_number(len(lists[0]), self.most)
        if len(lists) == 1 and not is_table:
            return self.from_values(lists[0], where)
        return [self._joined(row, where, is_table) for row in zip(*lists, strict=True)]

    def _find(self, available: Sequence[str], where: str, *, is_table: bool) -> list[str]:
        names = [find_name(name, available) for name in self.names]
        if len(names) == 1 and names[0] is None:
            names = [find_name(TEXT, available)]
        matched = [name for name in names if name is not None]
        if len(matched) < len(names) or (len(available) > len(matched) and not is_table):
            raise refused(
                f"{where} with {one_line(', '.join(available), 200)}",
                f"the model's text columns: {one_line(', '.join(self.names), 200)}",
            )
        return matched

    def _joined(self, cells: Sequence[Any], where: str, is_table: bool) -> str:
        texts = ["" if is_table and cell is None else decoded(cell, where) for cell in cells]
        return texts[0] if len(texts) == 1 else join_texts(texts)


def check_number(texts: int, most: int) -> None:
    """Raise RequestError for more texts than a request may have."""
    if texts > most:
        raise too_large(f"{texts:,} texts in a request", f"at most {most:,}")


def decoded(value: Any, where: str, *, is_base64: bool = False) -> str:  # noqa: ANN401 - any JSON value
    """Decode a string or {"b64": BASE64}; with `is_base64`, strings are base64 too.

    `where` names the values in messages.

    Raises:
        RequestError: the value has another form.
    """
    if isinstance(value, str) and not is_base64:
        return value
    if isinstance(value, dict) and len(value) == 1:
        value = value.get("b64")
    if not isinstance(value, str):
        raise refused(f"{one_line(value)} in {where}", 'a text, or {"b64": BASE64}')
    try:
        return base64.b64decode(value, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise refused(f"{one_line(value)} in {where}", "base64 of a text in UTF-8") from None
