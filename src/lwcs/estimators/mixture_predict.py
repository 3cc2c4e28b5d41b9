"""Methods of a fitted CoresetMixture: labels, probabilities, scores, samples, conversions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import fsum
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_count
from lwcs.arrays.device import (
    ArrayOrigin,
    DeviceArray,
    copied,
    followed,
    on_device,
    with_explained_memory,
)
from lwcs.arrays.rows import pieces, stored_values
from lwcs.estimators.summary import SummaryMixin
from lwcs.estimators.validation import check_same_library, scan_rows
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads
from lwcs.runtime.randomness import as_seed
from lwcs.samplers.first_pass import check_total
from lwcs.solvers.device_em import evaluate_and_check
from lwcs.solvers.em import log_joint, prepared
from lwcs.solvers.families import Gaussian
from lwcs.sources import LocalSource
from lwcs.sources.base import block_rows, gathered, whole_pass
from lwcs.storage.persistence import Savable, Tabular

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa
    from sklearn.mixture import GaussianMixture

    from lwcs.arrays.types import FloatArray
    from lwcs.estimators.coreset_mixture import CoresetMixture
    from lwcs.solvers.em import Mixture
    from lwcs.sources import Block


class MixturePredictMixin(SummaryMixin, Savable, Tabular):
    """The part of CoresetMixture that needs a fitted model."""

    _instead_of_rows = "pass rows of data"

    mixture_: Mixture
    weights_: Any
    random_state: Any
    n_jobs: int | None

    def _fitted(self) -> Any:
        check_is_fitted(self, "mixture_")
        return self

    def predict(self, X: Any) -> Any:
        """Most likely component of every row, in the same kind of container as X."""
        return self._map(X, "labels", "predict")

    def predict_proba(self, X: Any) -> Any:
        """Probability of each component for every row, in the library of X."""
        return self._map(X, "responsibilities", "predict_proba")

    def score_samples(self, X: Any) -> Any:
        """Log-likelihood of every row, in the library of X."""
        return self._map(X, "log-likelihood", "score_samples")

    @with_explained_memory
    def _map(self, X: Any, output: str, method: str) -> Any:
        model = self._fitted()
        check_same_library(model, X, "weights_", method)
        source = scan_rows(model, X, reset=False)
        if output != "labels" and not isinstance(source, LocalSource):
            raise TypeError(
                f"a {type(source).__name__} supports predict only; call predict, or pass parts of "
                "the rows as arrays"
            )
        task = MixtureTask(self.mixture_, output)
        with source.explaining(), whole_pass(source, Journal(), output):
            return source.map_rows(task, n_jobs=as_threads(self.n_jobs))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row, weighted by `sample_weight`."""
        total, weight = self._log_likelihood(X, sample_weight)
        return total / weight

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X; lower is better."""
        total, weight = self._log_likelihood(X)
        return float(-2.0 * total + self.n_parameters() * np.log(weight))

    def aic(self, X: Any) -> float:
        """Akaike information criterion on X; lower is better."""
        return -2.0 * self._log_likelihood(X)[0] + 2.0 * self.n_parameters()

    @with_explained_memory
    def _log_likelihood(self, X: Any, sample_weight: Any = None) -> tuple[float, float]:
        """Total log-likelihood of the rows of any source, and their total weight."""
        model = self._fitted()
        source = scan_rows(model, X, sample_weight, reset=False)
        task, threads = LogLikelihoodTask(self.mixture_), as_threads(self.n_jobs)
        with source.explaining():
            parts = list(gathered(source, task, "log-likelihood", n_jobs=threads))
        weight = fsum(weight for _, weight in parts)
        check_total(weight)
        return fsum(total for total, _ in parts), weight

    def n_parameters(self) -> int:
        """Number of free parameters of the mixture, as `bic` and `aic` count them."""
        check_is_fitted(self, "mixture_")
        return self.mixture_.family.n_parameters() + len(self.mixture_.weights) - 1

    def sample(self, n_samples: int = 1) -> tuple[Any, Any]:
        """Draw rows from the mixture; return them and the component of each.

        They are in the library and on the device of `weights_`.
        """
        check_is_fitted(self, "mixture_")
        n = check_count(n_samples, "n_samples")
        rng = np.random.default_rng(as_seed(self.random_state))
        counts = rng.multinomial(n, self.mixture_.weights)
        parts = [self.mixture_.family.sample(j, count, rng) for j, count in enumerate(counts)]
        rows, components = np.concatenate(parts), np.repeat(np.arange(len(counts)), counts)
        origin = ArrayOrigin.of(self.weights_)
        return followed(rows, origin), followed(components, origin)

    def to_arrow(self) -> pa.Table:
        """Convert the model to a pyarrow table with one row per component and metadata.

        It has what `save` writes: neither the coreset nor parameters that are arrays or objects
        (`means_init`, a sampler), which come back as their defaults. A model of your own family
        can be loaded once the class is defined.
        """
        from lwcs.estimators.mixture_io import to_table

        return to_table(self._fitted())

    @classmethod
    def from_arrow(cls, table: pa.Table) -> CoresetMixture:
        """Convert back from the table of `to_arrow`, whose metadata and checksum are checked."""
        from lwcs.estimators.mixture_io import KIND, from_table
        from lwcs.storage.persistence import of_kind

        return from_table(*of_kind(table, KIND, "CoresetMixture"), "table")

    def to_sklearn(self) -> GaussianMixture:
        """Convert to a fitted `sklearn.mixture.GaussianMixture` with these components.

        Its parameters `means_init`, `weights_init` and `precisions_init` are those of this
        mixture, so that its `fit` goes on from here. Gaussian only.
        """
        from sklearn.mixture import GaussianMixture

        model = self._fitted()
        family, seed = self.mixture_.family, self.random_state
        if type(family) is not Gaussian:
            raise ValueError(
                f"this model has family={family.name!r}, but sklearn.mixture has Gaussian "
                "components only; use this model as it is, or fit one with family='gaussian'"
            )
        weights, (k, d) = self.mixture_.weights, family.means.shape
        converted = GaussianMixture(
            k,
            covariance_type=family.covariance_type,
            init_params="random",
            reg_covar=1.0,
            max_iter=1,
            random_state=0,
        )
        # Any fit sets every attribute that this version of scikit-learn has.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            converted.fit(np.zeros((max(k, 2), d)))
        converted.weights_, converted.means_ = weights.copy(), family.means.copy()
        converted.covariances_ = family.covariances.copy()
        converted.precisions_ = family.precisions
        converted.precisions_cholesky_ = family.precisions_cholesky.copy()
        converted.converged_, converted.n_iter_ = model.converged_, model.n_iter_
        converted.lower_bound_, converted.lower_bounds_ = (
            model.lower_bound_,
            list(model.lower_bounds_),
        )
        if hasattr(model, "feature_names_in_"):
            converted.feature_names_in_ = model.feature_names_in_
        return converted.set_params(
            init_params="kmeans",
            reg_covar=family.reg_covar,
            max_iter=model.max_iter,
            tol=model.tol,
            means_init=family.means.copy(),
            weights_init=weights.copy(),
            precisions_init=family.precisions,
            # scikit-learn does not accept a generator of NumPy.
            random_state=seed if isinstance(seed, Integral) else None,
        )

    def _table(self) -> pa.Table:
        return self.to_arrow()

    def _html_repr(self) -> str:
        from lwcs.estimators.model_io import html_of

        return html_of(self, super()._html_repr())  # type: ignore[misc]  # BaseEstimator has it


@dataclass(frozen=True, slots=True)
class MixtureTask:
    """One result per row of a block: "labels", "responsibilities" or "log-likelihood"."""

    mixture: Mixture
    output: str

    def __call__(self, block: Block) -> Any:
        """Compute the results in the memory that holds the rows."""
        return _evaluate(self.mixture, block.points, block.first_row, self.output)


@dataclass(frozen=True, slots=True)
class LogLikelihoodTask:
    """Σω·ln p and Σω over the rows of a partition."""

    adds_up: ClassVar[bool] = True
    mixture: Mixture

    def __call__(self, blocks: Iterator[Block], partition: int) -> tuple[float, float]:
        """Sum over the blocks."""
        total = weight = 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                values = _evaluate(self.mixture, block.points, block.first_row, "log-likelihood")
            sums = _sums(block.weights, values)
            total, weight = total + sums[0], weight + sums[1]
        return total, weight


def labelled(mixture: Mixture, block: Block) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Most likely component of every row of a block, and the log-likelihood of the row."""
    joint = _joint(mixture, block.points, block.first_row)
    return np.argmax(joint, axis=1).astype(np.int32), logsumexp(joint, axis=1)


def densities(
    mixture: Mixture, points: Any, first_row: int
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Most likely component of every row, and the log-density of the row in it alone."""
    joint = _joint(mixture, copied(points), first_row)
    labels = np.argmax(joint, axis=1)
    return labels, joint[np.arange(len(labels)), labels] - np.log(mixture.weights)[labels]


def _evaluate(mixture: Mixture, points: Any, first_row: int, output: str) -> Any:
    if isinstance(points, DeviceArray):
        return _evaluate_on_device(mixture, points, first_row, output)
    joint = _joint(mixture, points, first_row)
    if output == "labels":
        return np.argmax(joint, axis=1).astype(np.int32)
    totals = logsumexp(joint, axis=1)
    return totals if output == "log-likelihood" else np.exp(joint - totals[:, None])


def _evaluate_on_device(
    mixture: Mixture, points: DeviceArray, first_row: int, output: str
) -> DeviceArray:
    """Compute on the device if the family can, else piece by piece on the host."""
    family, step = mixture.family, block_rows(points.shape[1])
    if not family.on_device:
        parts = [
            _evaluate(mixture, np.asarray(points[part]), first_row + part.start, output)
            for part in pieces(len(points), step)
        ]
        return DeviceArray(on_device(np.concatenate(parts), points.tensor))
    prepared(points, family, first_row)
    values, bad_row = evaluate_and_check(family, mixture.weights, points, output)
    if bad_row is not None:
        # As on the host, the error names the row with the largest value of its block.
        start = bad_row // step * step
        raise BadValueError.found_in(points[start : start + step], first_row + start, 0)
    return values


def _sums(weights: Any, values: Any) -> tuple[float, float]:
    """Σω·value and Σω, of one value per row."""
    if isinstance(values, DeviceArray):
        if weights is None:
            return float(values.tensor.sum()), float(len(values))
        omega = on_device(weights, values.tensor)
        return float(omega @ values.tensor), float(omega.sum())
    omega = kernels.unit_weights(weights, len(values))
    return float(omega @ values), float(omega.sum())


def _joint(mixture: Mixture, points: Any, first_row: int) -> FloatArray:
    """ln π_j + ln p(row | j), of shape (n_rows, n_components)."""
    if not np.isfinite(stored_values(points)).all():
        raise BadValueError.found_in(points, first_row, 0)
    rows = prepared(points, mixture.family, first_row)
    joint = log_joint(mixture.family, mixture.weights, rows)
    if not np.isfinite(joint.max(axis=1)).all():
        raise BadValueError.found_in(points, first_row, 0)
    return joint
