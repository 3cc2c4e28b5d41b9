"""partial_fit: a stream behind the estimator, clustered when somebody asks for the answer."""

from __future__ import annotations

from typing import Any, Self

from lwcs import kernels
from lwcs.estimators.inputs import check_parameters, check_rows, scan_rows
from lwcs.foundation.checks import check_choice
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.randomness import as_seed
from lwcs.sources import LocalSource
from lwcs.streaming import METHODS, StreamingCoreset

_ANSWERS = (
    "cluster_centers_",
    "inertia_",
    "n_iter_",
    "coreset_",
    "scale_",
    "geometry_",
    "_n_features_out",
)
_HINTS = {
    "labels_": "it is set by fit on rows in memory with compute_labels=True; "
    "predict(X) labels rows",
    "coreset_": "a loaded model has none; save the coreset beside it",
}


class Incremental:
    """What CoresetKMeans is made of for rows that come batch by batch."""

    method: Any
    divergence: Any
    n_clusters: int
    random_state: Any
    n_jobs: int | None

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Update the model with one more batch of rows, through a StreamingCoreset.

        Nothing is clustered until a result is requested (`cluster_centers_`, `predict`, …), so
        that small batches cost little. The size of the batches does not matter. `fit` starts
        again from nothing.

        Parameters
        ----------
        X : array, sparse array or table
            The next rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Their weights.
        """
        before = dict(vars(self))
        try:
            self._take(X, sample_weight)
        except BaseException:
            # A batch that is refused changes nothing.
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _take(self, X: Any, sample_weight: Any) -> None:
        model: Any = self
        size = check_parameters(model)
        check_choice(self.method, "method of partial_fit", METHODS)
        fresh = "_stream" not in vars(self)
        if fresh:
            model._forget()
        source = scan_rows(model, X, sample_weight, reset=fresh)
        if not isinstance(source, LocalSource):
            raise TypeError(f"partial_fit takes rows in memory, not a {type(source).__name__}")
        if fresh:
            self._stream = StreamingCoreset(
                size,
                method=self.method,
                divergence=self.divergence,
                random_state=self._seed(),
            )
        for name in _ANSWERS:
            vars(self).pop(name, None)
        self._stream.update(source.read(0, source.n_rows), source.weights)

    def _seed(self) -> int:
        return as_seed(self.random_state)

    def _settle(self) -> None:
        """Cluster what the stream holds."""
        model: Any = self
        coreset, kernel = self._stream.coreset(), kernels.choose(kernels.COMPILED_FROM)
        check_rows(coreset, self.n_clusters)
        threads = as_threads(self.n_jobs)
        vars(self).update(model._solve(coreset, kernel, self._stream.seed, threads))

    def __sklearn_is_fitted__(self) -> bool:
        return "cluster_centers_" in vars(self) or "_stream" in vars(self)

    def __getattr__(self, name: str) -> Any:
        # Reached only by what is not there: an answer that nobody has asked for yet, or
        # something that one would expect to be there, and that deserves a word.
        if name in _ANSWERS and "_stream" in vars(self):
            self._settle()
            return vars(self)[name]
        if name in _HINTS and "cluster_centers_" in vars(self):
            raise AttributeError(f"this {type(self).__name__} has no {name!r}: {_HINTS[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
