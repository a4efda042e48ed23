"""Small files that make a reader use gigabytes or minutes; each is made by a function."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
FAR = "XFD1048576"


def text_cell(reference: str, text: str) -> str:
    return f'<c r="{reference}" t="inlineStr"><is><t>{text}</t></is></c>'


def shared_cell(reference: str, place: int) -> str:
    return f'<c r="{reference}" t="s"><v>{place}</v></c>'


def workbook(
    path: Path,
    cells: Iterable[str],
    *,
    strings: Iterable[str] = (),
    sheets: int = 1,
    start: str = "",
    end: str = "",
    parts: dict[str, Iterable[str]] | None = None,
) -> Path:
    """Write an Excel file.

    Args:
        path: where it goes.
        cells: XML of the rows of its first sheet; all sheets share it.
        strings: its shared strings.
        sheets: their number.
        start: XML before the sheet's element.
        end: XML after the rows.
        parts: other members.
    """
    each = range(1, sheets + 1)
    members = {
        "[Content_Types].xml": [
            f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels"'
            ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override'
            f' PartName="/xl/workbook.xml" ContentType="{_TYPES}.sheet.main+xml"/></Types>'
        ],
        "_rels/.rels": [
            f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r"'
            f' Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
        ],
        "xl/workbook.xml": [
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>',
            *(f'<sheet name="s{number}" sheetId="{number}" r:id="r{number}"/>' for number in each),
            "</sheets></workbook>",
        ],
        "xl/_rels/workbook.xml.rels": [
            (
                f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="s"'
                f' Type="{_OFFICE}/sharedStrings" Target="sharedStrings.xml"/><Relationship Id="t"'
                f' Type="{_OFFICE}/styles" Target="styles.xml"/>'
            ),
            *(
                f'<Relationship Id="r{number}" Type="{_OFFICE}/worksheet"'
                ' Target="worksheets/sheet1.xml"/>'
                for number in each
            ),
            "</Relationships>",
        ],
        "xl/sharedStrings.xml": [
            f'<sst xmlns="{_MAIN}">',
            *(f"<si><t>{text}</t></si>" for text in strings),
            "</sst>",
        ],
        "xl/worksheets/sheet1.xml": [
            f'{start}<worksheet xmlns="{_MAIN}"><sheetData>',
            *cells,
            f"</sheetData>{end}</worksheet>",
        ],
        **(parts or {}),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in members.items():
            with book.open(name, "w", force_zip64=True) as member:
                for part in content:
                    member.write(part.encode())
    return path


def rows(count: int, *more: str) -> Iterable[str]:
    """The XML of a table with that many rows, and `more` cells in the header."""
    yield f'<row r="1">{text_cell("A1", "text")}{text_cell("B1", "label")}{"".join(more)}</row>'
    for row in range(2, count + 2):
        yield (
            "<row"
            f' r="{row}">{text_cell(f"A{row}", f"no signal {row}")}'
            f"{text_cell(f'B{row}', 'abc'[row % 3])}</row>"
        )


def _excel(folder: Path, **made: object) -> Path:
    return workbook(folder / "in.xlsx", **made)  # type: ignore[arg-type]


def _parquet(
    folder: Path, columns: dict[str, object], rows: int, *, times: int = 1, **options: object
) -> Path:
    """Parquet with one distinct value per column, `rows` times in each of `times` row groups."""
    import pyarrow
    import pyarrow.parquet

    arrays = {
        name: pyarrow.DictionaryArray.from_arrays(
            pyarrow.nulls(rows, pyarrow.int32()).fill_null(0), [value]
        )
        for name, value in columns.items()
    }
    table = pyarrow.table(arrays)
    with pyarrow.parquet.ParquetWriter(
        folder / "in.parquet", table.schema, compression="zstd", **options
    ) as writer:
        for _ in range(times):
            writer.write_table(table, row_group_size=rows)
    return folder / "in.parquet"


def _gzip(folder: Path, name: str, start: bytes, block: bytes, times: int) -> Path:
    with gzip.open(folder / name, "wb") as file:
        file.write(start)
        for _ in range(times):
            file.write(block)
    return folder / name


_MB = 1_000_000
_LAUGHS = (
    '<!DOCTYPE a [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {after} "{f"&{before};" * 10}">'
        for before, after in zip("abcdefghi", "bcdefghij", strict=True)
    )
    + "]>"
)

EXCEL: dict[str, Callable[[Path], Path]] = {
    "a cell at the end of the sheet": lambda at: _excel(
        at, cells=[*rows(5), f'<row r="1048576">{text_cell(FAR, "x")}</row>']
    ),
    "many rows and a cell at XFD1": lambda at: _excel(
        at, cells=rows(20_000, text_cell("XFD1", "x"))
    ),
    "columns no sheet has": lambda at: _excel(at, cells=rows(9_000, text_cell("ZZZZ1", "x"))),
    "one long shared string in each row": lambda at: _excel(
        at,
        cells=(f'<row r="{row}">{shared_cell(f"A{row}", 0)}</row>' for row in range(1, 100_001)),
        strings=["x" * 32_767],
    ),
    "cells of 1 MB": lambda at: _excel(
        at,
        cells=(f'<row r="{row}">{text_cell(f"A{row}", "x" * _MB)}</row>' for row in range(1, 501)),
    ),
    "a cell of 400 MB": lambda at: _excel(
        at,
        cells=[
            '<row r="1"><c r="A1" t="inlineStr"><is><t>',
            *["x" * _MB] * 400,
            "</t></is></c></row>",
        ],
    ),
    "100,000 sheets without a text": lambda at: _excel(
        at,
        cells=(f'<row r="{row}">{text_cell(f"A{row}", "")}</row>' for row in range(1, 100_000)),
        sheets=100_000,
    ),
    "nested entities": lambda at: _excel(
        at, cells=[f'<row r="1">{text_cell("A1", "&j;")}</row>'], start=_LAUGHS
    ),
}
PARQUET: dict[str, Callable[[Path], Path]] = {
    "one long string in each row": lambda at: _parquet(
        at, {"text": "x" * 32_767, "label": "a"}, 1_000_000
    ),
    "one string of 1 MB in each row": lambda at: _parquet(
        at, {"text": "x" * _MB, "label": "a"}, 100_000
    ),
}
GZIP: dict[str, Callable[[Path], Path]] = {
    "lines": lambda at: _gzip(at, "in.csv.gz", b"text,label\n", b"a,b\n" * 250_000, 100),
    "blank lines": lambda at: _gzip(at, "in.csv.gz", b"text,label\na,b\n", b"\n" * _MB, 100),
    "one line": lambda at: _gzip(at, "in.csv.gz", b"text,label\n", b"x" * _MB, 100),
    "an endless quote": lambda at: _gzip(at, "in.csv.gz", b'text,label\n"', b"x,\n" * 300_000, 100),
    "long texts": lambda at: _gzip(at, "in.csv.gz", b"text,label\n", b"x" * 900_000 + b",a\n", 100),
    "objects": lambda at: _gzip(at, "in.jsonl.gz", b"", b'{"text": "a"}\n' * 70_000, 100),
    "blank lines of JSON": lambda at: _gzip(
        at, "in.jsonl.gz", b'{"text": "a"}\n', b"\n" * _MB, 100
    ),
}
