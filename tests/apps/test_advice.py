"""Errors on pages name pages and boxes, not commands."""

import re
from pathlib import Path

import pytest

import bertcnn
from tests.apps.dashboards import part

# the parts of the library whose errors reach pages
PARTS = ("review", "tables", "workflows", "bundle", "data", "evaluation", "inference")
STRING = re.compile(r'"([^"\n]*\bbertcnn (?:review|models|retrain|jobs|train|score)\b[^"\n]*)"')


def errors():
    """Sentences of the library that name a command which a page replaces."""
    root = Path(bertcnn.__file__).parent
    for name in PARTS:
        for file in sorted((root / name).rglob("*.py")):
            code = file.read_text(encoding="utf-8")
            yield from STRING.findall(re.sub(r'"""(?s:.)*?"""', "", code))


def test_advice_on_pages_names_no_command():
    found = list(errors())
    assert len(found) > 10
    for message in found:
        shown = part("advice").on_page(f"no; expected one. What to do: {message}.")
        assert "bertcnn" not in shown, shown
        assert "--" not in shown, shown
        assert not re.search(r"\b(see|on) see\b|\bwith see\b|\brun see\b", shown), shown


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("see `bertcnn models list`.", "see the page Models."),
        ("compare them with `bertcnn models compare`.", "compare them on the page Models."),
        ("add some: bertcnn review add FILE --store a.db.", "add some: see the page Tickets."),
        ("name it with --text.", "name it in the box Text column."),
        ("choose another name, or overwrite it with --force.", "choose another name."),
        ("run `bertcnn encoder pull x` first.", "ask the person who runs this dashboard."),
        ("start it with -- --people FILE.", "start it with -- --people FILE."),
        ("check the file bertcnn.csv.", "check the file bertcnn.csv."),
    ],
)
def test_advice_is_about_pages(given, expected):
    start = "given; expected more. What to do: "
    assert part("advice").on_page(start + given) == start + expected
