"""Every figure in README and docs comes from figures.toml or from a constant in the code."""

import ast
import re
import tomllib
from decimal import ROUND_HALF_UP, Decimal
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "docs" / "benchmarks"
FIGURES = tomllib.loads((BENCHMARKS / "figures.toml").read_text(encoding="utf-8"))
PAGES = sorted(  # benchmark pages have tables of their own runs, the reference is generated
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if path.name != "CHANGELOG.md" and not {"benchmarks", "reference"} & set(path.parts)
)
UNITS = {
    **dict.fromkeys(["s", "second", "seconds"], 1),
    **dict.fromkeys(["min", "minute", "minutes"], 60),
    **dict.fromkeys(["rows/s", "times", "AUROC"], 1),
    "ms": Decimal("0.001"),
    "%": Decimal("0.01"),
    "kB": 1000,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
UNIT = rf"(?:\*\*)?(?: ({'|'.join(UNITS)})(?![\w/])|(%))"
NUMBER = re.compile(rf"(?<![\w.,/-])(\d[\d,]*(?:\.\d+)?)(?![\d\w])(?:{UNIT})?")
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`|\]\([^)]*\)", re.S | re.M)
NAMES = re.compile(r"<!-- figures: ([^>]+) -->")
EXAMPLE = "example"  # an illustration, or the definition of a term


def named(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    """Paragraphs, lists and tables, each with the figure names in the comment before it."""
    names = []
    for block in re.split(r"\n\s*\n", CODE.sub("``", page.read_text(encoding="utf-8"))):
        comment = NAMES.search(block)
        if comment:
            names = re.split(r",\s+", comment[1])
        text = NAMES.sub("", block).strip()
        if text:
            yield names, text
            names = []


def numbers(text):
    """Pairs of a number as written and its unit or None; "2 min 29 s" becomes seconds."""
    text = re.sub(r"(\d+) min (\d+) s\b", lambda m: f"{60 * int(m[1]) + int(m[2])} s", text)
    return [(one[1].rstrip(","), one[2] or one[3]) for one in NUMBER.finditer(text)]


def is_written(value, number, unit):
    """Whether the number is the value, rounded to the written number of decimals."""
    written = Decimal(number.replace(",", ""))
    exact = Decimal(str(value)) / Decimal(UNITS[unit or "s"])
    return exact.quantize(written, ROUND_HALF_UP) == written


def constant(path, name):
    """The value of a module's constant, an option's default, or a call of a module's function."""
    if "(" in name or "." in name:
        return eval(name, vars(import_module(path.removesuffix(".py").replace("/", "."))))
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            last = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
            pairs = [(one.arg, value) for one, value in last]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(ast.unparse(node.target), node.value)]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            targets = getattr(node.targets[0], "elts", [])
            pairs = zip(map(ast.unparse, targets), node.value.elts, strict=False)
        elif isinstance(node, ast.Assign):
            pairs = [(ast.unparse(node.targets[0]), node.value)]
        else:
            pairs = [(one.arg, one.value) for one in getattr(node, "keywords", [])]
        for own, value in pairs:
            if own == name and value is not None:
                field = isinstance(value, ast.Call)  # of pydantic
                return eval(ast.unparse(value.args[0] if field else value), {"__builtins__": {}})
    raise LookupError(f"{path} has no {name}")


def values(name):
    """The required values, the permitted values, and the competitors' by name, in base units."""
    if ":" in name:
        value = constant(*name.split(":"))
        return [value * 60 if name.endswith("_MINUTES") else value], [], {}
    figure = FIGURES[name]
    scale = UNITS[figure["unit"]]
    own, *others = (
        [Decimal(str(value)) * scale for value in group]
        for group in (
            [figure["value"]] if "value" in figure else figure["range"][:1],
            [figure["spread"]] if "spread" in figure else figure.get("range", [])[1:],
            figure.get("peers", {}).values(),
        )
    )
    spread, peers = others
    ratios = [ratio for peer in peers for ratio in (own[0] / peer, peer / own[0])]
    return own, [*spread, *peers, *ratios], dict(zip(figure.get("peers", {}), peers, strict=True))


def is_in(value, written, unit=None):
    return any(is_written(value, number, one or unit) for number, one in written)


@pytest.mark.parametrize("page", [*PAGES, *sorted(BENCHMARKS.glob("*.md"))], ids=named)
def test_a_named_figure_matches_its_measurement(page):
    for names, text in blocks(page):
        for name in set(names) - {EXAMPLE}:
            own, _, peers = values(name)
            unit = FIGURES[name]["unit"] if name in FIGURES else None
            assert all(is_in(value, numbers(text), unit) for value in own), (name, text)
            for peer, value in peers.items():
                assert peer not in text or is_in(value, numbers(text), unit), (peer, text)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_number_with_a_unit_names_its_figure(page):
    for names, text in blocks(page):
        if EXAMPLE in names:
            continue
        known = [value for name in names for group in values(name)[:2] for value in group]
        for number, unit in numbers(text):
            assert unit is None or any(is_written(value, number, unit) for value in known), (
                f"{number} {unit} in: {text}"
            )


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_its_command_and_machine(name):
    figure = FIGURES[name]
    assert {"unit", "machine", "date", "command"} <= set(figure)
    if "page" in figure:
        text = (BENCHMARKS / figure["page"]).read_text(encoding="utf-8")
        for value in values(name)[0]:
            assert is_in(value, numbers(text), figure["unit"]), (value, figure["page"])


INDEX = re.compile(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \| (.*) \|$", re.M)


@pytest.mark.parametrize(
    ("page", "answer"), INDEX.findall((BENCHMARKS / "index.md").read_text(encoding="utf-8"))
)
def test_the_index_of_benchmarks_has_the_numbers_of_its_pages(page, answer):
    text = (BENCHMARKS / page).read_text(encoding="utf-8")
    there = {Decimal(number.replace(",", "")) for number, _ in numbers(text)}
    assert {Decimal(number.replace(",", "")) for number, _ in numbers(answer)} <= there


def test_make_states_the_size_of_what_it_installs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    plain, more = (number for number, unit in numbers(makefile) if unit == "GB" and number != "1")
    sizes = FIGURES["install"]["value"], FIGURES["install_dev"]["value"]
    assert is_written(sizes[0] * 10**6, plain, "GB")
    assert is_written((sizes[1] - sizes[0]) * 10**6, more, "GB")
