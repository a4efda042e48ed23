"""Counts phrases that make an English sentence hard to read; `make lint` runs it.

`python3 tests/prose.py` counts them in docstrings, comments, messages and help texts of all tracked
Python files but the tests, and in all Markdown files but the changelog. It lists the places and
ends with 1 if there are more than 0.5 in 1,000 words.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MOST = 0.5  # in 1,000 words
PHRASES = {
    "a sentence that begins with 'Of'": r"(?:^|[.:;] )Of (?:an?|the|all|these|those|each|it)\b",
    "'what' or 'who' as a noun": (
        r"(?:^|[.:;,] )(?:[Ww]hat|[Ww]hatever|[Ww]ho)"
        r" (?!is|are|was|to|if|can|should|must|do|happens|you|kind)\w+ \w+"
    ),
    "'that of', 'those of'": r"\b(?:those|that|the ones) of (?:the|an?|its|their|another|each)\b",
    "'is told', 'says so'": r"\b(?:is|are|was|were|gets?) told\b|\bsays? so\b",
    "a preposition and 'which'": r"\b(?:by|of|from|on|for|after|with|without|at) which\b",
    "'so many', 'as far as', 'beside'": r"\bby now\b|\bas far as\b|\bso (?:many|much)\b|\bbeside\b",
    "'it is the ... that'": r"\b[Ii]t is (?:the|an?|what) \w+ that\b",
}
_FOUND = {name: re.compile(phrase) for name, phrase in PHRASES.items()}


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of prose in a file, with their numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        in_code = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            elif not in_code:
                yield number, line
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for after, line in enumerate(node.value.splitlines()):
                yield node.lineno + after, line
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def count(paths: list[Path]) -> tuple[int, list[str]]:
    """The number of words, and a line for each phrase."""
    words, places = 0, []
    for path in paths:
        for number, line in sentences(path):
            words += len(line.split())
            places += [
                f"{path}:{number}: {name}: {line.strip()[:80]}"
                for name, phrase in _FOUND.items()
                if phrase.search(line.strip())
            ]
    return words, places


def main() -> int:
    """Count, print the places if there are too many, and return the exit status."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = [name for name in tracked if not name.startswith(("tests/", "CHANGELOG"))]
    words, places = count([Path(name) for name in names])
    per_thousand = 1000 * len(places) / words
    if per_thousand > MOST:
        print("\n".join(places))  # noqa: T201 - its result
    print(  # noqa: T201
        f"{len(places)} phrases in {words:,} words of prose: {per_thousand:.2f} in 1,000, at most"
        f" {MOST} are wanted"
    )
    return int(per_thousand > MOST)


if __name__ == "__main__":
    sys.exit(main())
