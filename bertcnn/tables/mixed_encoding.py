"""Files in which only some lines are UTF-8, such as a log that two programs append to."""

from __future__ import annotations

import codecs
import re

from bertcnn.wording import count

# Asian encodings are excluded: their short texts may be valid UTF-8 by chance.
_ONE_BYTE = re.compile(r"cp125\d|latin-1|koi8_r")
_LONGEST = 16_000_000  # bytes of a line that are kept until its end


def utf_8_remark(path: str, blocks: list[bytes], encoding: str) -> str:
    """The remark that some lines are read as UTF-8 and the others as `encoding`; "" if none are."""
    if not _ONE_BYTE.fullmatch(encoding):
        return ""
    lines = [line for block in blocks for line in block.splitlines() if not line.isascii()]
    valid = sum(_decoded(line, "") is not None for line in lines)
    if not valid:
        return ""
    return (
        f"of {count(len(lines), 'line')} with accents looked at in {path!r}, {valid:,} are UTF-8"
        f" and the others {encoding}: each line is read in its own encoding"
    )


class LineDecoder(codecs.IncrementalDecoder):
    """Decodes each line as UTF-8 if it is valid, else in another encoding."""

    def __init__(self, encoding: str, errors: str) -> None:
        super().__init__(errors)
        self._encoding = encoding
        self._rest = b""

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        """The text of all lines that end in `data`, and of the rest if it is the last."""
        lines = (self._rest + data).splitlines(keepends=True)
        self._rest = b"" if final or not lines or len(lines[-1]) > _LONGEST else lines.pop()
        return "".join(_decoded(line, self._encoding, self.errors) or "" for line in lines)


def _decoded(line: bytes, encoding: str, errors: str = "strict") -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(encoding, errors) if encoding else None
