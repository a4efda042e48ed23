"""Alignments as heat maps, in one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from bertcnn.tasks.translation.translator import Translation


def alignment_page(translations: Sequence[Translation]) -> str:
    """A page with a heat map for each translation (Bahdanau et al. 2014, figure 3)."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bertcnn.tasks.translation", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    tables = [
        {
            "source": one.source,
            "text": one.text,
            "score": one.score,
            "columns": one.source_pieces,
            "rows": [
                {"piece": piece, "cells": weights.tolist()}
                for piece, weights in zip(one.pieces, one.alignment, strict=True)
            ],
        }
        for one in translations
        if one.pieces
    ]
    return environment.get_template("alignment.html.j2").render(tables=tables)
