"""Files of texts and their translations."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from bertcnn.errors import SettingsError, TableError, one_line
from bertcnn.storage import read_text
from bertcnn.tables import read_table
from bertcnn.tasks.pairs import FEWEST_PAIRS, Pairs
from bertcnn.text import is_blank, split_lines

# a first line of two such words is a header: nobody needs them translated
_HEADER_WORDS = set(
    "source target src tgt text translation original translated input output from to"  # noqa: SIM905
    " english german french italian spanish portuguese dutch polish turkish chinese japanese"
    " en de fr it es pt nl pl tr zh ja".split()
)


def read_pairs(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    least: int = FEWEST_PAIRS,
) -> Pairs:
    """Read texts and their translations.

    Without column names the file has a text, a tab and its translation in each line. A first line
    of two names, such as `english` and `italian`, is a header and is left out.

    Args:
        path: a text file, or any table of `score_csv` if columns are named.
        source: the column of texts; given together with `target`.
        target: the column of translations.
        least: fewest pairs.

    Raises:
        SettingsError: only one column is named.
        TableError: the file cannot be read, a line lacks two texts, or there are too few pairs.
        ColumnError: a named column is missing.
    """
    if (source is None) != (target is None):
        raise SettingsError(
            f"one column, {one_line(source or target)}",
            expected="the columns of texts and of translations",
            fix="name both with --source and --target, or neither",
        )
    if source is not None and target is not None:
        table = read_table(Path(path), required=(source, target))
        return Pairs.of(table.column(source), table.column(target), least=least)
    file = Path(path)
    try:
        lines = split_lines(read_text(file).removeprefix("\ufeff"))
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            f"{file} cannot be read ({error.strerror if isinstance(error, OSError) else error})",
            expected="a text file in UTF-8, with a text, a tab and its translation in each line",
            fix="check its name and its encoding; for other tables name --source and --target",
        ) from None
    pairs = []
    for row, line in enumerate(lines, 1):
        cells = line.split("\t")
        if is_blank(line):
            continue
        if len(cells) != 2:
            raise TableError(
                f"line {row} of {file} with {len(cells)} columns ({one_line(line, 40)})",
                expected="a text, a tab and its translation",
                fix="name the columns of a table with --source and --target, or keep two columns",
            )
        pairs.append(cells)
    if pairs and _HEADER_WORDS.issuperset(cell.strip().lower() for cell in pairs[0]):
        del pairs[0]
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    return Pairs.of(sources, targets, least=least)
