"""Parses the label column of a file: splits cells and unifies spellings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertcnn.data.label_sets import (
    AUTO,
    LISTS,
    NO,
    LabelSet,
    choose_separator,
    names_in,
    split_cell,
)
from bertcnn.data.list_cells import bare_list_in_cell, list_in_cell
from bertcnn.data.same_labels import KnownLabels, describe_spellings, one_spelling
from bertcnn.wording import count


@dataclass(frozen=True)
class LabelColumn:
    """A parsed label column.

    Attributes:
        sets: the labels of each row, sorted and unique; empty for a blank cell.
        separator: between the labels of a row; None if each row has one label.
    """

    sets: list[LabelSet]
    separator: str | None
    remarks: tuple[str, ...] = ()

    @property
    def single(self) -> list[str]:
        """The label of each row, for single-label data; "" for none."""
        return ["".join(names) for names in self.sets]


def read_label_column(cells: Sequence[str], multi_label: str = AUTO) -> LabelColumn:
    """Parses the label column of a training file; `multi_label` is as in `choose_separator`.

    Raises:
        SettingsError: the separator is blank, or occurs in no cell.

    Example:
        >>> read_label_column(['["billing"]', '["network"]', "", '["network "]']).sets
        [('billing',), ('network',), (), ('network',)]
    """
    separator, remarks = choose_separator(cells, multi_label), []
    if separator is not None:
        remarks.append(_describe_sets(cells, separator, multi_label))
    elif multi_label != NO:
        cells, unwrapped = _without_brackets(cells)
        if unwrapped:
            remarks.append(
                f"{count(unwrapped, 'label')} in brackets, lists of one: taken as single labels;"
                f" --multi-label '{LISTS}' learns lists"
            )
    sets = [names_in(cell, separator) for cell in cells]
    names = [name for row in sets for name in row]
    spelled = one_spelling(names)
    if spelled:
        remarks.append(describe_spellings(names, spelled))
        sets = [tuple(sorted({spelled.get(name, name) for name in row})) for row in sets]
    return LabelColumn(sets, separator, tuple(remarks))


def known_sets(cells: Sequence[str], separator: str | None, labels: KnownLabels) -> list[LabelSet]:
    """Parses a label column for a model with these labels, in the model's spelling.

    From unknown labels only invisible characters are removed.
    """
    sets = []
    for cell in cells:
        names = names_in(cell, separator)
        # a list of one, unless a known label has this form
        if separator is None and names and labels.find(cell) is None:
            listed = bare_list_in_cell(cell)
            names = names if listed is None or len(listed) > 1 else tuple(listed)
        sets.append(tuple(sorted({labels.spelled(name) for name in names if name.strip()})))
    return sets


def _without_brackets(cells: Sequence[str]) -> tuple[list[str], int]:
    """Removes the brackets of lists of one; also returns how many labels had brackets."""
    parse = (
        bare_list_in_cell
        if all(bare_list_in_cell(cell) is not None for cell in cells if cell.strip())
        else list_in_cell
    )
    plain, unwrapped = [], 0
    for cell in cells:
        listed = parse(cell)
        one = listed is not None and len(set(listed)) < 2
        plain.append("".join(set(listed or ())) if one else cell)
        unwrapped += one and bool(listed)
    return plain, unwrapped


def _describe_sets(cells: Sequence[str], separator: str, option: str) -> str:
    sets = [split_cell(cell, separator) for cell in cells]
    several, labelled = sum(len(names) > 1 for names in sets), sum(map(bool, sets))
    between = "lists" if separator == LISTS else f"{separator!r} between labels"
    message = f"{several:,} of {labelled:,} rows have several labels ({between})"
    return (
        message
        if option != AUTO
        else (
            f"{message}: each label is learned separately; --multi-label no takes a cell as one"
            " label"
        )
    )
