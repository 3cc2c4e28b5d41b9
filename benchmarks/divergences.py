"""Coresets and clusters by a divergence: 20 Newsgroups by KL, mel spectra by Itakura–Saito.

The data is in the folder that LWCS_DATA names. `make divergences` writes what clusters by KL and by
k-means on tf-idf have in common with the newsgroups, and how good coresets of spectra are, into the
docs.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from numba import njit
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score

import lwcs
from benchmarks.measure import Result, interleaved
from lwcs.geometry import Geometry
from lwcs.passes import full_cost

SEEDS = 10
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def benchmarks() -> Iterator[Result]:
    """A KL build against one pass over the non-zeros."""
    X, _ = news()
    mean = np.asarray(X.mean(axis=0)).ravel()
    times = interleaved(
        15,
        ours=lambda: lwcs.build(X, 2_000, divergence="kl", random_state=0, n_jobs=1),
        compiled=lambda: kl_pass(X.data, X.indices, X.indptr, mean),
        plain=lambda: plain_kl_pass(X, mean),
        product=lambda: X @ mean,
    )
    for peer, name in (
        ("compiled", "KL of every row from a vector, one compiled pass"),
        ("plain", "the same in NumPy"),
        ("product", "bare product with a vector"),
    ):
        ratio = times["ours"] / times[peer]
        target = "stated" if peer == "product" else "≤ 3"
        yield Result(
            "lightweight KL build, one thread, 20 Newsgroups", *X.shape, times["ours"], name,
            times[peer], ratio, target, peer == "product" or ratio <= 3.0,
        )  # fmt: skip


@njit
def kl_pass(data: Any, indices: Any, indptr: Any, mean: Any) -> Any:
    """Σ x·ln(x/m) − x + m of every row, which any second pass must compute."""
    total, out = mean.sum(), np.empty(len(indptr) - 1)
    for i in range(len(out)):
        d = total
        for at in range(indptr[i], indptr[i + 1]):
            x = np.float64(data[at])
            d += x * np.log(x / mean[indices[at]]) - x
        out[i] = d
    return out


def plain_kl_pass(X: Any, mean: np.ndarray) -> np.ndarray:
    terms = X.data * np.log(X.data / mean[X.indices]) - X.data
    row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.bincount(row_of, terms, X.shape[0]) + mean.sum()


def data(name: str) -> Path:
    return Path(os.environ["LWCS_DATA"]) / name


def news() -> tuple[Any, np.ndarray]:
    X = sp.csr_array(sp.load_npz(data("news20_counts_csr.npz")))
    return X, pq.read_table(data("news20_docs.parquet"))["group"].to_numpy()


def mel() -> np.ndarray:
    table = pq.read_table(data("fsdd_mel40.parquet"))
    return np.stack(
        [table[c].to_numpy() for c in table.column_names if c.startswith("mel")], axis=1
    )


def topics() -> Iterator[str]:
    """Normalised mutual information with the newsgroups, of five ways to cluster documents.

    The smoothing is the default, fixed before anything was measured; rows without words are left
    out, since two of the ways cannot place them.
    """
    X, group = news()
    kept = np.asarray(X.sum(axis=1)).ravel() > 0
    X, group = X[kept], group[kept]
    ways = {
        "k-means on tf-idf": (TfidfTransformer().fit_transform(X), "sqeuclidean"),
        "k-means on tf-idf, logarithmic counts": (
            TfidfTransformer(sublinear_tf=True).fit_transform(X),
            "sqeuclidean",
        ),
        "spherical k-means on tf-idf": (TfidfTransformer().fit_transform(X), "cosine"),
        "KL of counts": (X, "kl"),
        "KL of shares": (X, "kl_simplex"),
    }
    yield f"| | all {len(group):,} rows | refined, 10,000 draws | lightweight, 5,000 draws |"
    yield "|---|---|---|---|"
    for name, (rows, divergence) in ways.items():
        cells = []
        for size, method in ((20_000, "lightweight"), (10_000, "refined"), (5_000, "lightweight")):
            found = [_agreement(rows, group, divergence, size, method, s) for s in range(SEEDS)]
            half = 1.96 * np.std(found, ddof=1) / np.sqrt(SEEDS)
            cells.append(f"{np.mean(found):.3f} ± {half:.3f}")
        yield f"| {name} | {' | '.join(cells)} |"


def _agreement(
    rows: Any, group: np.ndarray, divergence: str, size: int, method: str, seed: int
) -> float:
    model = lwcs.CoresetKMeans(
        20, divergence=divergence, coreset_size=size, method=method, random_state=seed
    )
    return float(normalized_mutual_info_score(group, model.fit(rows).labels_))


def spectra() -> Iterator[str]:
    """Itakura–Saito on mel spectra: error against all rows, and of the cost at fixed centers."""
    X, k, own = mel(), 32, Geometry(lwcs.divergences.ItakuraSaito())
    source, rng = lwcs.scan(X), np.random.default_rng(0)
    full = np.mean([_solved(X, len(X), "lightweight", s) for s in range(3)])
    fixed = [X[rng.choice(len(X), (k, 50))].astype(float).mean(axis=1) for _ in range(20)]
    truth = np.array([full_cost(source, own.centers(centers)) for centers in fixed])
    methods = {
        "lightweight, by d_φ": "lightweight",
        "lightweight, by d_A": lwcs.Lightweight(distance="sqeuclidean"),
        "uniform": "uniform",
        "refined": "refined",
    }
    sizes = (1_000, 2_000, 5_000, 10_000)
    yield "| | " + " | ".join(f"{size:,} draws" for size in sizes) + " |"
    yield "|---" * (1 + len(sizes)) + "|"
    for name, method in methods.items():
        cells = []
        for size in sizes:
            errors = [100.0 * (_solved(X, size, method, s) / full - 1.0) for s in range(SEEDS)]
            coresets = [_built(X, size, method, s, k) for s in range(SEEDS)]
            costs = np.array([[c.cost(centers) for centers in fixed] for c in coresets])
            rms = 100.0 * np.sqrt(np.mean((costs / truth - 1.0) ** 2))
            cells.append(f"{np.mean(errors):.1f} % ({rms:.1f} %)")
        yield f"| {name} | {' | '.join(cells)} |"


def _solved(X: np.ndarray, size: int, method: Any, seed: int) -> float:
    model = lwcs.CoresetKMeans(
        32, divergence="itakura_saito", coreset_size=size, method=method, random_state=seed
    )
    return float(model.fit(X).inertia_)


def _built(X: np.ndarray, size: int, method: Any, seed: int, k: int) -> lwcs.Coreset:
    return lwcs.build(
        X, size, divergence="itakura_saito", method=method, n_clusters=k, random_state=seed
    )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in (topics, spectra):
        lines = []
        for line in part():
            print(line, flush=True)
            lines.append(line)
        page = RESULTS / f"divergences_{part.__name__}.md"
        page.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
