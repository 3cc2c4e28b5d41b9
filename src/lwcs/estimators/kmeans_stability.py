"""`CoresetKMeans.stability`: on which coreset clusters are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwcs import kernels
from lwcs.arrays.checks import check_count
from lwcs.arrays.device import check_device
from lwcs.coreset.building import BuildContext
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.estimators.inputs import (
    TF32,
    check_features,
    check_rows,
    coreset_of_stream,
    measured_by,
    scan_rows,
)
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import as_seed
from lwcs.sizing.kmeans import first_size
from lwcs.sizing.method import sampler_of
from lwcs.sizing.solution import summarize
from lwcs.sizing.stability import Original, bootstrap

if TYPE_CHECKING:
    from lwcs.estimators.kmeans import CoresetKMeans
    from lwcs.sizing.stability_result import Stability


def judge(
    model: CoresetKMeans, data: Any, sample_weight: Any, n_bootstrap: int, random_state: Any
) -> Stability:
    """Judge the clusters of a model by its coreset, or by other data."""
    n_bootstrap = check_count(n_bootstrap, "n_bootstrap", least=2)
    seed = as_seed(model.random_state if random_state is None else random_state)
    threads, journal = as_threads(model.n_jobs), Journal(model.verbose)
    with single_threaded_blas():
        coreset = _coreset(model, data, sample_weight, seed, threads, journal)
        geometry = model.geometry_.with_kernel(kernels.choose(coreset.host_points.size))
        original = Original.of(coreset, geometry, model.host_centers())
        return bootstrap(original, n_bootstrap, seed, threads, journal)


def _coreset(
    model: CoresetKMeans, data: Any, sample_weight: Any, seed: int, threads: int, journal: Journal
) -> Coreset:
    """The draws that judge."""
    k = model.cluster_centers_.shape[0]
    if data is None:
        refuse_sample_weight(sample_weight)
        own: Coreset | None = getattr(model, "coreset_", None)
        if own is None:
            raise ValueError(
                "this model was loaded from a file, which has no coreset; pass the data or a "
                "coreset of it: model.stability(data)"
            )
        return own
    data = coreset_of_stream(data)
    if isinstance(data, Coreset):
        refuse_sample_weight(sample_weight)
        coreset = measured_by(data, model.geometry_.divergence)
        check_features(model, coreset)
        check_rows(coreset, k)
        return coreset
    source, by = scan_rows(model, data, sample_weight, reset=False), model.geometry_.divergence
    job = BuildContext.of(source, by, check_device(model.device), tf32=model.precision == TF32)
    # "auto" would solve a pilot to choose; these draws judge clusters that are there already.
    method = sampler_of(model.method, k)
    return summarize(
        job, first_size(k), k, method=method, seed=seed, n_jobs=threads, journal=journal
    )
