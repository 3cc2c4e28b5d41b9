"""What a fitted mixture answers: labels, probabilities, scores, samples, and other formats."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lwcs.arrays.checks import check_count
from lwcs.arrays.device import ArrayOrigin, followed, with_explained_memory
from lwcs.estimators.html import QualityHTML
from lwcs.estimators.inputs import check_same_library, scan_rows
from lwcs.estimators.mixture_rows import LogLikelihoodTask, MixtureTask
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads
from lwcs.runtime.randomness import as_seed
from lwcs.samplers.first_pass import check_total
from lwcs.sources import LocalSource
from lwcs.sources.watching import gathered, whole_pass
from lwcs.storage.persistence import Savable, Tabular

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.mixture import GaussianMixture

    from lwcs.estimators.mixture import CoresetMixture
    from lwcs.solvers.em import Mixture


class MixtureAnswers(QualityHTML, Savable, Tabular):
    """What CoresetMixture is made of once it is fitted."""

    _instead_of_rows = "pass rows of data"

    mixture_: Mixture
    weights_: Any
    random_state: Any
    n_jobs: int | None

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
    def _map(self, X: Any, what: str, method: str) -> Any:
        check_is_fitted(self, "mixture_")
        model: Any = self
        check_same_library(model, X, "weights_", method)
        source = scan_rows(model, X, reset=False)
        if what != "labels" and not isinstance(source, LocalSource):
            raise TypeError(
                f"a {type(source).__name__} supports predict only; call predict, or pass parts of "
                "the rows as arrays"
            )
        task = MixtureTask(self.mixture_.family, self.mixture_.weights, what)
        with source.explaining(), whole_pass(source, Journal(), what):
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
        check_is_fitted(self, "mixture_")
        model: Any = self
        source = scan_rows(model, X, sample_weight, reset=False)
        task = LogLikelihoodTask(self.mixture_.family, self.mixture_.weights)
        with source.explaining():
            threads = as_threads(self.n_jobs)
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
        like = ArrayOrigin.of(self.weights_)
        return followed(rows, like), followed(components, like)

    def to_arrow(self) -> pa.Table:
        """Convert the model to a pyarrow table with one row per component and metadata.

        It has what `save` writes: neither the coreset nor parameters that are arrays or objects
        (`means_init`, a sampler), which come back as their defaults. A model of your own family
        can be loaded once the class is defined.
        """
        from lwcs.estimators.mixture_io import to_table

        check_is_fitted(self, "mixture_")
        model: Any = self
        return to_table(model)

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
        from lwcs.estimators.sklearn_models import to_gaussian_mixture

        check_is_fitted(self, "mixture_")
        model: Any = self
        return to_gaussian_mixture(model)

    def _table(self) -> pa.Table:
        return self.to_arrow()
