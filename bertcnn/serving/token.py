"""The access token, and where it is required."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bertcnn.errors import SettingsError, one_line

TOKEN: Final = "BERTCNN_SERVE_TOKEN"  # environment variable
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_FEWEST_CHARACTERS: Final = 16
_LARGEST_FILE: Final = 4096  # characters


def read_token(file: Path | None) -> bytes | None:
    """Read the token from a file's only line, or from `BERTCNN_SERVE_TOKEN`; None if there is none.

    Raises:
        SettingsError: the file cannot be read, or the token is too short or has white space.
    """
    if file is None:
        text, source = os.environ.get(TOKEN, ""), TOKEN
        if not text:
            return None
    else:
        source = str(file)
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(_LARGEST_FILE).removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"the token file {source}, which cannot be read ({error})",
                expected="a file with the token in one line",
                fix="correct --token-file, or the file's rights",
            ) from None
    if len(text) < _FEWEST_CHARACTERS or any(not "!" <= sign <= "~" for sign in text):
        raise SettingsError(
            f"a token of {len(text)} characters in {source}",
            expected=f"at least {_FEWEST_CHARACTERS} ASCII characters without spaces",
            fix="write a new one, for example with: openssl rand -hex 32",
        )
    return text.encode("ascii")


def check_access(host: str, token_file: Path | None) -> None:
    """Raise SettingsError for an address that other machines reach, if there is no valid token."""
    if read_token(token_file) is None and host not in LOOPBACK:
        raise SettingsError(
            f"--host {one_line(host)} without a token",
            expected=f"a token in {TOKEN} or --token-file, since other machines reach this address",
            fix=f"set {TOKEN}, for example to the output of: openssl rand -hex 32",
        )
