"""The dashboard's start options: arguments behind `--`, or environment variables."""

from __future__ import annotations

import argparse
import os
import sys
from functools import lru_cache
from typing import Literal, get_args

from bertcnn.errors import SettingsError

Option = Literal["models", "files", "store", "person", "people", "behind-proxy"]
_OPTIONS: tuple[Option, ...] = get_args(Option)


def option(name: Option) -> str | None:
    """The value of `--NAME` or $BERTCNN_NAME, or None; SettingsError if the value is missing."""
    try:
        values = _read(
            tuple(sys.argv[1:]), tuple(os.environ.get(_variable(one)) for one in _OPTIONS)
        )
    except argparse.ArgumentError as error:
        raise SettingsError(
            f"{error.argument_name} without a value",
            expected="one value",
            fix=f"start again with -- {error.argument_name} VALUE",
        ) from None
    return vars(values)[name] or None


def _variable(name: Option) -> str:
    return f"BERTCNN_{name.upper().replace('-', '_')}"


@lru_cache(maxsize=1)  # a page reads options a dozen times
def _read(arguments: tuple[str, ...], variables: tuple[str | None, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    for name, default in zip(_OPTIONS, variables, strict=True):
        parser.add_argument(f"--{name}", dest=name, default=default)
    return parser.parse_known_args(arguments)[0]
