"""The contract of a mixture family: density, weighted maximum likelihood, and what is saved.

The mean of the maximum-likelihood fit of an exponential family is the weighted mean of the rows,
as for the Bregman divergence that corresponds to it (Banerjee et al. 2005; section 6 of the
paper).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.divergences import Divergence


# Column names of a saved model, and attributes of the estimator, that no family may use.
_RESERVED_COLUMNS = {"component", "weight"}
_RESERVED_ATTRIBUTES = {
    "means", "weights", "lower_bound", "lower_bounds", "converged", "n_iter", "coreset", "mixture",
    "sampling_error", "sampling_error_bound",
}  # fmt: skip


class Family(ABC):
    """The k components of a mixture, all from one family of distributions.

    A subclass that defines `name` and `divergence` is registered when its class is created.
    ``CoresetMixture(family=name)`` then uses it, and saved models refer to it by this name. The
    names of built-in families cannot be reused.

    A subclass implements `fit`, which sets `means` and what else is fitted, `log_density`,
    `sample` and `n_parameters`. Fitted attributes other than `means` are declared in `fitted`. If
    `fit` keeps means away from the boundary of their domain, `as_means` does so for given ones.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import CoresetMixture
    >>> from lwcs.divergences import KL
    >>> from lwcs.solvers.families import Family, weighted_means
    >>> class Geometric(Family):
    ...     name, divergence, start, sparse = "geometric", KL(smoothing=0.0), KL(), True
    ...     def fit(self, rows, weights):
    ...         self.means = np.maximum(weighted_means(rows, weights), 1e-10)
    ...     def log_density(self, rows):
    ...         stop = np.log1p(self.means)
    ...         return np.asarray(rows @ (np.log(self.means) - stop).T) - stop.sum(axis=1)
    ...     def sample(self, component, n, rng):
    ...         mean = self.means[component]
    ...         return rng.geometric(1.0 / (1.0 + mean), (n, len(mean))) - 1.0
    ...     def n_parameters(self):
    ...         return self.means.size
    >>> X = np.random.default_rng(0).geometric(0.2, (2_000, 3)) - 1.0
    >>> CoresetMixture(family="geometric", random_state=0).fit(X).means_.round()
    array([[4., 4., 4.]])
    """

    name: ClassVar[str]
    """The value of the parameter `family`."""
    divergence: ClassVar[Divergence]
    """The Bregman divergence that rows are drawn by; rows must be in its domain."""
    start: ClassVar[Divergence]
    """The divergence of the starting clusters; `divergence` by default.

    It needs smoothing if the maximum-likelihood fit of a few rows may be at the boundary.
    """
    sparse: ClassVar[bool] = False
    """Whether the methods accept CSR rows as well as dense ones."""
    on_device: ClassVar[bool] = False
    """Whether `lwcs.solvers.device_em` has code for it; others get rows as NumPy arrays.

    Not inherited, since a subclass may have other formulas.
    """
    options: ClassVar[tuple[str, ...]] = ()
    """Parameters of CoresetMixture that the constructor takes, and keeps under the same names."""
    fitted: ClassVar[Mapping[str, str]] = {}
    """Fitted attributes other than `means`, by the name that they have in a saved model.

    Each is an array with one entry per component or a plain number. The estimator shows them
    with a trailing underscore.
    """
    derived: ClassVar[tuple[str, ...]] = ()
    """Attributes computed from the fitted ones, which the estimator shows but does not save."""

    _registered: ClassVar[dict[str, type[Family]]] = {}

    means: FloatArray
    """Means of the components, of shape (n_components, n_features)."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a subclass that defines a name."""
        super().__init_subclass__(**options)
        cls.on_device = vars(cls).get("on_device", False)
        if "name" not in vars(cls):
            return
        _check_class(cls, Family._registered.get(cls.name))
        start = getattr(cls, "start", cls.divergence)
        # Copies, so that errors about rows name the family and other users keep their object.
        cls.divergence, cls.start = (
            copy(each).of_family(cls.name) for each in (cls.divergence, start)
        )
        Family._registered[cls.name] = cls

    @classmethod
    def create(cls, parameters: Mapping[str, Any]) -> Self:
        """Create an unfitted family from the parameters of the estimator by name."""
        missing = [name for name in cls.options if name not in parameters]
        if missing:
            raise TypeError(
                f"family={cls.name!r} has the options {missing}, which are not parameters of "
                f"CoresetMixture; use class attributes of {cls.__name__} instead"
            )
        return cls(**{name: parameters[name] for name in cls.options})

    @abstractmethod
    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Fit component j to the rows with the weights ``weights[:, j]``."""

    @abstractmethod
    def log_density(self, rows: Rows) -> FloatArray:
        """ln p(row | component), of shape (n_rows, n_components)."""

    @abstractmethod
    def sample(self, component: int, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw `n` rows from one component."""

    @abstractmethod
    def n_parameters(self) -> int:
        """Number of free parameters of all components, for BIC and AIC."""

    def start_rows(self, rows: Rows) -> Rows:
        """The rows that the starting clusters are computed from; tensors if it is `on_device`."""
        return rows

    def as_means(self, given: FloatArray) -> FloatArray:
        """The means of `means_init`, which are in the domain, as `fit` would set them."""
        return given

    def as_precisions(self, given: Any, n_components: int, n_features: int) -> FloatArray:
        """Check the precisions that a user gave; Gaussian only."""
        del given, n_components, n_features
        raise ValueError(
            f"precisions_init is given, but family={self.name!r} has no precisions; leave it out, "
            "or pass family='gaussian'"
        )

    def start_at(self, means: FloatArray | None, precisions: FloatArray | None) -> None:
        """Replace the means, or the precisions, by those that EM is to start from."""
        del precisions
        if means is not None:
            self.restore(means, self.state())

    def state(self) -> dict[str, Any]:
        """The values that a saved model contains besides the means, by name."""
        return {name: getattr(self, attribute) for name, attribute in self.fitted.items()}

    def restore(self, means: FloatArray, state: Mapping[str, Any]) -> None:
        """Become the fitted family that had these means and this state."""
        self.means = means
        for name, attribute in self.fitted.items():
            setattr(self, attribute, state[name])

    def check(self) -> None:
        """Refuse what no fit gives, after `restore` from a file that may be damaged."""
        outside = self.divergence.domain.outside(self.means)
        if outside.any():
            component, column = map(int, np.argwhere(outside)[0])
            raise ValueError(
                f"the mean of component {component} is {self.means[component, column]} in column "
                f"{column}, must be {self.divergence.domain}"
            )

    def attributes(self) -> dict[str, Any]:
        """The fitted attributes that the estimator shows."""
        return {name: getattr(self, name) for name in self.shown()}

    @classmethod
    def shown(cls) -> tuple[str, ...]:
        """The names of the fitted attributes that the estimator shows."""
        return ("means", *cls.fitted.values(), *cls.derived)


def _check_class(cls: type[Family], taken: type[Family] | None) -> None:
    """Refuse a class that cannot be registered."""
    if taken is not None and taken.__module__.startswith("lwcs."):
        raise TypeError(
            f"name={cls.name!r} is the name of the built-in family {taken.__name__}; choose "
            f"another name for {cls.__name__}"
        )
    if not hasattr(cls, "divergence"):
        raise TypeError(
            f"{cls.__name__} has no divergence; set the class attribute, for example to "
            "lwcs.divergences.SquaredEuclidean()"
        )
    reserved = _RESERVED_COLUMNS & set(cls.fitted)
    reserved |= _RESERVED_ATTRIBUTES & {*cls.fitted.values(), *cls.derived}
    if reserved:
        raise TypeError(
            f"{cls.__name__} cannot use the reserved names {sorted(reserved)} in fitted or "
            "derived; rename them"
        )


def weighted_sums(rows: Rows, weights: FloatArray) -> FloatArray:
    """Weighted sum of the rows for each component, of shape (n_components, n_features)."""
    return np.asarray(weights.T @ rows)


def weighted_means(rows: Rows, weights: FloatArray) -> FloatArray:
    """Weighted mean of the rows for each component, of shape (n_components, n_features)."""
    return means_of_sums(weighted_sums(rows, weights), weights)


def means_of_sums(sums: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted means, from the weighted sums of the rows."""
    totals = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
    return sums / totals[:, None]


class Natural(NamedTuple):
    """The parameters of the log-densities of all components."""

    parameters: tuple[FloatArray, ...]
    """One array of shape (n_components, n_features) per statistic."""
    offsets: FloatArray
    """One number per component."""


class NaturalFamily(Family):
    """A family whose log-density is linear in statistics of a row: statistics·parameters + offset.

    So the densities of all components are matrix products, also for sparse rows and tensors, and a
    fit needs nothing but the weighted sums of the statistics.
    """

    @abstractmethod
    def natural(self) -> Natural:
        """The parameters in the order of `statistics`, and the offsets."""

    def fit_sums(self, sums: Sequence[FloatArray], weights: FloatArray) -> None:
        """Fit the components to sums of the statistics, of shape (n_components, n_features) each.

        `weights` are those of the rows, or their sums: an array of shape (1, n_components). By
        default, the only statistic is the row, and the only parameter its mean.
        """
        self.means = self.as_means(means_of_sums(sums[0], weights))

    def n_parameters(self) -> int:
        """Number of parameters; by default one per column and component."""
        return self.means.size

    def statistics(self, rows: Any) -> tuple[Any, ...]:
        """The statistics of every row, for NumPy arrays, sparse rows or tensors."""
        return (rows,)

    def base(self, rows: Any) -> Any:
        """The term that does not depend on the component, one number per row; None for zero."""
        del rows

    def fit(self, rows: Rows, weights: FloatArray) -> None:
        """Fit the components to the sums of the statistics."""
        self.fit_sums([weighted_sums(each, weights) for each in self.statistics(rows)], weights)

    def log_density(self, rows: Rows) -> FloatArray:
        """Add up the products of statistics and parameters, the offsets and the base."""
        parameters, total = self.natural()
        for values, each in zip(self.statistics(rows), parameters, strict=True):
            total = total + np.asarray(values @ each.T)
        base = self.base(rows)
        return total if base is None else total + base[:, None]
