"""What the dashboard was started with: options behind `--`, or environment variables."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Literal, get_args

from bertcnn.errors import SettingsError

Option = Literal["models", "files", "store", "person", "people", "behind-proxy"]


def option(name: Option) -> str | None:
    """The value of `--NAME` or of $BERTCNN_NAME; None if neither is there.

    The variable of `--behind-proxy` is $BERTCNN_BEHIND_PROXY.

    Raises:
        SettingsError: an option has no value.
    """
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    for one in get_args(Option):
        variable = f"BERTCNN_{one.upper().replace('-', '_')}"
        parser.add_argument(f"--{one}", dest=one, default=os.environ.get(variable))
    try:
        given = vars(parser.parse_known_args(sys.argv[1:])[0])[name]
    except argparse.ArgumentError as error:
        raise SettingsError(
            f"{error.argument_name} without a value",
            expected="one value",
            fix=f"start again with -- {error.argument_name} VALUE",
        ) from None
    return given or None
