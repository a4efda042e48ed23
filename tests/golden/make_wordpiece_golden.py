"""Makes wordpiece_golden.npz and wordpiece_legacy.json, in an environment of its own.

They hold the token ids of Hugging Face's tokenizers.

    pip install transformers==5.23.0 tokenizers==0.23.3
    python tests/golden/make_wordpiece_golden.py current FOLDER-OF-ALL-MINILM-L6-V2
        # with Python 3.11, whose unicodedata is that of Unicode 14
        python tests/golden/make_wordpiece_golden.py legacy
        # where a digest differs: the pieces of one character, by both
        python tests/golden/make_wordpiece_golden.py show U+1F600

`current` is `transformers.BertTokenizer`, `legacy` its predecessor in Python,
`BertTokenizerLegacy`."""

import json
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import transformers
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy
from wordpiece_texts import (
    CODE_POINTS,
    COMPOSED,
    FORMS,
    GROUP,
    HERE,
    IDEOGRAPHS,
    NEWER,
    REASONS,
    SAMPLE,
    UNASSIGNED,
    blocks,
    character_vocabulary,
    differs_by_design,
    digest,
    naughty_strings,
    random_strings,
)


def current(vocabulary: list[str], lowercase: bool):
    tokenizer = transformers.BertTokenizer(
        vocab={piece: index for index, piece in enumerate(vocabulary)}, do_lower_case=lowercase
    )
    return lambda texts: tokenizer(texts, add_special_tokens=False)["input_ids"]


def legacy(vocabulary: list[str], lowercase: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text(
            "".join(piece + "\n" for piece in vocabulary), encoding="utf-8", newline="\n"
        )
        tokenizer = BertTokenizerLegacy(str(path), do_lower_case=lowercase)
    # special tokens in a text are ordinary characters, as in bertcnn
    return lambda texts: [
        tokenizer.convert_tokens_to_ids(tokenizer._tokenize(text, split_special_tokens=True))
        for text in texts
    ]


def make_current(folder: str) -> None:
    published = (
        (Path(folder) / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    )
    strings, naughty = random_strings(), naughty_strings()
    arrays = {}
    for name, vocabulary, lowercase in (
        ("published", published, True),
        ("uncased", character_vocabulary(), True),
        ("cased", character_vocabulary(), False),
    ):
        encode = current(vocabulary, lowercase)
        digests = []
        for block in blocks():
            rows = encode([form.format(chr(point)) for point in block for form in FORMS])
            digests.append(digest([[index for row in rows for index in row]]))
        arrays[f"{name}_blocks"] = np.array(digests, np.uint64)
        rows = encode(strings)
        arrays[f"{name}_random"] = np.array(
            [digest(rows[start : start + GROUP]) for start in range(0, len(rows), GROUP)], np.uint64
        )
        for kind, kept in (("sample", rows[:SAMPLE]), ("naughty", encode(naughty))):
            arrays[f"{name}_{kind}_ids"] = np.concatenate([np.array(row, np.int32) for row in kept])
            arrays[f"{name}_{kind}_counts"] = np.array([len(row) for row in kept], np.int32)
    np.savez_compressed(HERE / "wordpiece_golden.npz", **arrays)
    sys.stdout.write(
        f"transformers {transformers.__version__}:"
        f" {(HERE / 'wordpiece_golden.npz').stat().st_size:,} bytes\n"
    )


def make_legacy() -> None:
    strings = random_strings()
    content = {
        "python": sys.version.split()[0],
        "unicode": unicodedata.unidata_version,
        "reasons": REASONS,
    }
    for lowercase in (True, False):
        now, before = (
            current(character_vocabulary(), lowercase),
            legacy(character_vocabulary(), lowercase),
        )
        listed = {reason: [] for reason in REASONS}
        for block in blocks():
            texts = [form.format(chr(point)) for point in block for form in FORMS]
            both = list(zip(now(texts), before(texts), strict=True))
            for place, point in enumerate(block):
                if any(mine != theirs for mine, theirs in both[2 * place : 2 * place + 2]):
                    listed[reason(point, lowercase)].append(point)
        points = {point for found in listed.values() for point in found}
        sound = [text for text in strings if not differs_by_design(text, points, lowercase)]
        rows = before(sound)
        assert not [
            text
            for text, mine, theirs in zip(sound, now(sound), rows, strict=True)
            if mine != theirs
        ]
        content["uncased" if lowercase else "cased"] = {
            "counts": [len(listed[reason]) for reason in REASONS],
            "ranges": [ranges(listed[reason]) for reason in REASONS],
            "random_strings": len(sound),
            "random_digests": [
                digest(rows[start : start + GROUP]) for start in range(0, len(rows), GROUP)
            ],
        }
    (HERE / "wordpiece_legacy.json").write_text(
        json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8"
    )
    sys.stdout.write(
        f"{content['uncased']['counts']} {content['cased']['counts']} of {len(CODE_POINTS):,} code"
        " points differ\n"
    )


def reason(point: int, lowercase: bool) -> str:
    char = chr(point)
    if unicodedata.category(char) == "Cn":
        return UNASSIGNED
    if 0x2B820 <= point < 0x2B920:
        return IDEOGRAPHS
    return NEWER if lowercase or unicodedata.normalize("NFC", char) == char else COMPOSED


def ranges(points: list[int]) -> list[list[int]]:
    """The first and last number of each run."""
    found: list[list[int]] = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def show(point: int) -> None:
    vocabulary = character_vocabulary()
    for lowercase in (True, False):
        for name, make in (("current", current), ("legacy", legacy)):
            rows = make(vocabulary, lowercase)([form.format(chr(point)) for form in FORMS])
            pieces = [[vocabulary[index] for index in row] for row in rows]
            sys.stdout.write(f"{name} lowercase={lowercase} {rows} {pieces}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["current", folder]:
            make_current(folder)
        case ["legacy"]:
            make_legacy()
        case ["show", point]:
            show(int(point.removeprefix("U+"), 16))
        case _:
            sys.exit(__doc__)
