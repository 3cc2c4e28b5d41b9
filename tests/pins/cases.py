"""Every kind of result on small data, reduced to a few numbers: what a pin holds.

A pin holds integers (row numbers, counts, labels) exactly, as a checksum, and floating-point
results as two projections, which the test compares to a relative tolerance, so that a pin does
not depend on the order in which one BLAS adds up.

``python -m tests.pins.cases`` writes the pins of the code as it is; do that only where a
result is meant to change, and say so in the changelog.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import lwcs
from lwcs import CoresetKMeans, CoresetMixture, divergences

PINS = Path(__file__).with_name("pins.json")
K, SIZE, SEED = 4, 80, 11
METHODS = ("lightweight", "uniform", "sensitivity", "refined")
KINDS = ("float64", "float32", "csr", "csr32")

Pin = dict[str, Any]


def rows_for(divergence: str, kind: str) -> Any:
    """Four clusters of counts with zeros, brought into the domain of a divergence."""
    rng = np.random.default_rng(5)
    rates = rng.gamma(1.0, 6.0, (K, 6)) + 0.3
    X = rng.poisson(rates[rng.integers(0, K, 640)]).astype(np.float64)
    X[:, 0] += 1.0
    if divergence == "itakura_saito":
        X += 0.25 + 0.5 * rng.random(X.shape)
    elif divergence == "logistic":
        X /= X.max()
    elif divergence == "exponential":
        X = 0.2 * X - 2.0 * (X > 0)
    X = X.astype(np.float32 if kind.endswith("32") else np.float64)
    return sp.csr_array(X) if kind.startswith("csr") else X


def weights() -> np.ndarray:
    return np.random.default_rng(6).integers(0, 4, 640).astype(np.float64)


def divergence_of(name: str) -> Any:
    if name != "mahalanobis":
        return name
    factor = np.random.default_rng(7).normal(size=(6, 6))
    return divergences.Mahalanobis(factor @ factor.T + 3.0 * np.eye(6))


def numbers(values: Any) -> list[float]:
    """Two projections of an array."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return [float(flat.sum()), float(flat @ np.cos(np.arange(len(flat))))]


def checksum(values: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(values, dtype=np.int64).tobytes())


def of_coreset(coreset: lwcs.Coreset) -> Pin:
    rows = coreset.points
    return {
        "indices": checksum(coreset.indices),
        "counts": checksum(coreset.counts),
        "points": numbers(rows.toarray() if sp.issparse(rows) else rows),
        "weights": numbers(coreset.weights),
        "mean": None if coreset.mean is None else numbers(coreset.mean),
        "cost": coreset.total_cost,
        "scale": None if coreset.scale is None else numbers(coreset.scale),
    }


def of_model(model: CoresetKMeans, X: Any) -> Pin:
    return {
        "labels": checksum(model.labels_),
        "predicted": checksum(model.predict(X)),
        "centers": numbers(model.cluster_centers_),
        "inertia": model.inertia_,
        "score": model.score(X),
        "transform": numbers(model.transform(X)),
        "estimate": model.coreset_.cost(model.cluster_centers_),
    }


def of_mixture(model: CoresetMixture, X: Any) -> Pin:
    return {
        "predicted": checksum(model.predict(X)),
        "means": numbers(model.means_),
        "weights": numbers(model.weights_),
        "score": model.score(X),
    }


def cases() -> Iterator[tuple[str, Callable[[], Pin]]]:
    """Names, and what computes the pin."""
    for method, kind, weighted in product(METHODS, KINDS, (False, True)):
        for scale, passes in ((None, "auto"), (None, 2), ("standard", "auto")):
            if passes == 2 and method in ("sensitivity", "refined"):
                continue
            case = (method, kind, weighted, scale, passes)
            name = f"build/{method}/{kind}/weighted={weighted}/scale={scale}/passes={passes}"
            yield name, lambda case=case: _build(*case)
        for scale in (None, "standard"):
            fitted = (method, kind, weighted, scale)
            name = f"fit/{method}/{kind}/weighted={weighted}/scale={scale}"
            yield name, lambda fitted=fitted: _fit(*fitted)
    for name, kind, method in product(divergences.available(), KINDS, METHODS):
        if name == "sqeuclidean" or not name_is_ours(name):
            continue
        if name == "itakura_saito" and kind.startswith("csr"):
            continue
        one = (name, kind, method)
        yield f"divergence/{name}/{kind}/{method}", lambda one=one: _divergence(*one)
    for kind in KINDS:
        yield f"stream/{kind}", lambda kind=kind: _stream(kind)
        yield f"one pass/{kind}", lambda kind=kind: _one_pass(kind)
        yield f"union/{kind}", lambda kind=kind: _union(kind)
        yield f"all rows/{kind}", lambda kind=kind: _all_rows(kind)
    families = ("gaussian", "poisson", "multinomial", "bernoulli", "exponential", "gamma")
    for family in families:
        yield f"mixture/{family}", lambda family=family: _mixture(family)


def name_is_ours(name: str) -> bool:
    """Whether a divergence belongs to the library; tests define some of their own."""
    return divergences.available()[name].__module__.startswith("lwcs.")


def _build(method: str, kind: str, weighted: bool, scale: Any, passes: Any) -> Pin:
    source = lwcs.scan(
        rows_for("sqeuclidean", kind), scale=scale, weight=weights() if weighted else None
    )
    return of_coreset(
        lwcs.build(source, SIZE, method=method, n_clusters=K, passes=passes, random_state=SEED)
    )


def _fit(method: str, kind: str, weighted: bool, scale: Any) -> Pin:
    X = rows_for("sqeuclidean", kind)
    source = lwcs.scan(X, scale=scale, weight=weights() if weighted else None)
    model = CoresetKMeans(K, coreset_size=SIZE, method=method, polish=1, random_state=SEED)
    return of_model(model.fit(source), X)


def _divergence(name: str, kind: str, method: str) -> Pin:
    X, own = rows_for(name, kind), divergence_of(name)
    model = CoresetKMeans(
        K, coreset_size=SIZE, method=method, divergence=own, polish=1, random_state=SEED
    ).fit(X)
    return of_coreset(model.coreset_) | of_model(model, X)


def _stream(kind: str) -> Pin:
    stream = lwcs.StreamingCoreset(SIZE, random_state=SEED)
    for part in range(4):
        stream.update(rows_for("sqeuclidean", kind)[160 * part : 160 * (part + 1)])
    return of_coreset(stream.coreset())


def _one_pass(kind: str) -> Pin:
    X = rows_for("sqeuclidean", kind)
    batches = (X[start : start + 100] for start in range(0, 640, 100))
    return of_coreset(lwcs.build(batches, SIZE, random_state=SEED))


def _union(kind: str) -> Pin:
    X = rows_for("sqeuclidean", kind)
    parts = [lwcs.build(X[at], SIZE, random_state=SEED) for at in (slice(300), slice(300, 640))]
    return of_coreset((parts[0] + parts[1]).reduce(SIZE, random_state=SEED))


def _all_rows(kind: str) -> Pin:
    X = rows_for("sqeuclidean", kind)
    model = CoresetKMeans(K, coreset_size=1_000, n_init=3, random_state=SEED).fit(X)
    return of_coreset(model.coreset_) | of_model(model, X)


def _mixture(family: str) -> Pin:
    kind = {"exponential": "itakura_saito", "gamma": "itakura_saito", "bernoulli": "logistic"}
    X = rows_for(kind.get(family, "sqeuclidean"), "float64")
    model = CoresetMixture(K, family=family, coreset_size=320, random_state=SEED, reg_covar=1e-2)
    return of_mixture(model.fit(X), X)


def computed() -> dict[str, Pin]:
    """All pins of the code as it is."""
    found = {}
    for name, compute in cases():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = compute()
    return found


if __name__ == "__main__":
    PINS.write_text(json.dumps(computed(), indent=0, sort_keys=True) + "\n", "utf-8")
