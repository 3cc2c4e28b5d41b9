"""`python -m tests.release.saved`: one file of each kind, as this version of lwcs writes it.

Run it once for every release: later versions must read all of these files. What they held is
kept beside them, in `answers.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import lwcs

FOLDER = Path(__file__).parent / "files"
ANSWERS = "answers.json"


def rows() -> np.ndarray:
    rng = np.random.default_rng(7)
    return np.round(rng.gamma(2.0, size=(300, 2)) + 9 * rng.integers(0, 3, (300, 1)), 2)


def objects() -> dict[str, Any]:
    """What is saved, by the name of its file."""
    X = rows()
    stream = lwcs.StreamingCoreset(40, random_state=0)
    stream.update(X)
    own = {"coreset_size": 60, "random_state": 0}
    return {
        "coreset": lwcs.build(lwcs.scan(X, scale="standard"), 40, random_state=0),
        "kl": lwcs.build(X, 40, divergence=lwcs.divergences.KL(smoothing=0.5), random_state=0),
        "kmeans": lwcs.CoresetKMeans(3, **own).fit(X),
        "mixture": lwcs.CoresetMixture(3, **own).fit(X),
        "stream": stream,
    }


def answers(saved: dict[str, Any]) -> dict[str, Any]:
    """What each of them says about the rows, in plain numbers."""
    X = rows()
    centers = np.array([[2.0, 2.0], [11.0, 11.0], [20.0, 20.0]])
    return {
        "comparison": sorted(cell.error for cell in saved["comparison"].cells("rows", 3)),
        "coreset": saved["coreset"].cost(centers),
        "kl": saved["kl"].cost(centers),
        "kmeans": saved["kmeans"].predict(X).tolist(),
        "kmeans error": saved["kmeans"].sampling_error_,
        "mixture": saved["mixture"].score_samples(X[:20]).tolist(),
        "stream": saved["stream"].coreset().cost(centers),
    }


def main() -> None:
    folder = FOLDER / lwcs.__version__
    folder.mkdir(parents=True, exist_ok=True)
    saved = objects()
    for name, each in saved.items():
        each.save(folder / f"{name}.parquet")
    options = {"sizes": [30], "methods": ["lightweight", "full"], "polish": [0],
               "repeats": 3, "full_repeats": 1}  # fmt: skip
    path = folder / "comparison.parquet"
    path.unlink(missing_ok=True)
    saved["comparison"] = lwcs.compare(rows(), 3, name="rows", path=path, **options)
    (folder / ANSWERS).write_text(json.dumps(answers(saved)) + "\n")


if __name__ == "__main__":
    main()
