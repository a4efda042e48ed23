"""Baselines on the same rows: TF-IDF with an SVM, logistic regression on the encoder.

    python -m benchmarks.baselines train.csv test.csv

Nothing is tuned on the test rows. The first baseline is TF-IDF of word unigrams and bigrams with a
linear support vector machine at its defaults. The second is logistic regression (C = 10, as in
`few_shot`) on mean token embeddings, normalised to length 1.
"""

from __future__ import annotations

import argparse
import time

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.few_shot import INVERSE_REGULARIZATION, read, unit_embeddings


def main() -> None:
    """Train both; print their accuracy, training time and prediction time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train")
    parser.add_argument("test")
    options = parser.parse_args()
    (texts, labels), (asked, truth) = read(options.train), read(options.test)
    for name, features, model in (
        (
            "TF-IDF, linear SVM",
            list,
            make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC()),
        ),
        (
            "frozen mean embedding, logistic regression",
            unit_embeddings,
            LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=2000),
        ),
    ):
        started = time.perf_counter()
        model.fit(features(texts), labels)
        accuracy = model.score(features(asked), truth)
        print(f"{name}: {accuracy:.2%}, {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
