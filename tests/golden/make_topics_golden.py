"""Makes topics_golden.json: results of apricot-select 0.6.1 and BERTopic 0.17.4.

Run where both are installed (they are no dependencies of bertcnn). Of BERTopic's dependencies, only
scikit-learn is needed:

    python make_topics_golden.py

`counts` [classes, words] and `class_tf_idf` of the same shape, by BERTopic's ClassTfidfTransformer;
`embeddings` [M, D] and `order` [M], by apricot's FacilityLocationSelection on their cosines above
0.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from apricot import FacilityLocationSelection
from scipy.sparse import csr_matrix

HERE = Path(__file__).parent
SEED = 2022
CLASSES, WORDS = 4, 12
TEXTS, WIDTH = 40, 5


def class_tf_idf(counts: np.ndarray) -> np.ndarray:
    """The class TF-IDF from BERTopic's module that needs scikit-learn only."""
    package = importlib.util.find_spec("bertopic").submodule_search_locations[0]
    path = Path(package) / "vectorizers" / "_ctfidf.py"
    spec = importlib.util.spec_from_file_location("ctfidf", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ClassTfidfTransformer().fit_transform(csr_matrix(counts, dtype=float)).toarray()


def main() -> None:
    generator = np.random.default_rng(SEED)
    counts = generator.integers(0, 9, (CLASSES, WORDS))
    # BERTopic truncates the mean number of words of a class to an integer
    counts[0, 0] += -counts.sum() % CLASSES
    embeddings = generator.normal(size=(TEXTS, WIDTH)).round(3)
    directions = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    selection = FacilityLocationSelection(TEXTS, metric="precomputed", optimizer="naive")
    selection.fit(np.maximum(directions @ directions.T, 0))
    golden = {
        "counts": counts.tolist(),
        "class_tf_idf": class_tf_idf(counts).round(12).tolist(),
        "embeddings": embeddings.tolist(),
        "order": selection.ranking.tolist(),
    }
    path = HERE / "topics_golden.json"
    path.write_text(json.dumps(golden) + "\n", encoding="utf-8")
    sys.stdout.write(f"order {golden['order'][:8]}, {path.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
