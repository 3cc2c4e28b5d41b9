"""Log-densities and fits of the built-in families for rows on a device; their own are the oracle.

Rows are float64 tensors, a piece at a time. Parameters of the components are NumPy arrays before
and after, and go to the device once for all pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import pieces
from lwcs.solvers import device_em as families
from lwcs.solvers.families.family import NaturalFamily, means_of_sums
from lwcs.solvers.families.gaussian import Gaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lwcs.arrays.types import FloatArray, Mask
    from lwcs.solvers.families import Family


# Values of one temporary; there are two at a time, of 128 MB each.
_PIECE_VALUES = 2**24


def piece_rows(family: Family, k: int, n_features: int) -> int:
    """Number of rows that are computed with at a time, for k components."""
    per_row = k + n_features if isinstance(family, NaturalFamily) else k * n_features
    return max(1, _PIECE_VALUES // per_row)


def density(family: Family, like: Any) -> Callable[[Any], Any]:
    """ln p(row | component) as a function of rows on the device of `like`, as `log_density`."""
    if isinstance(family, NaturalFamily):
        return _natural_density(family, like)
    assert isinstance(family, Gaussian)
    return _gaussian_density(family, like)


class Sums(NamedTuple):
    """What the first sweep over the rows finds, on the host."""

    totals: FloatArray
    """The weight of every component."""
    statistics: list[FloatArray]
    """Weighted sums of the statistics; of the rows themselves for Gaussian."""


def sums(family: Family, parts: Iterable[tuple[Any, Any]]) -> Sums:
    """Add up rows with the weights of every component, both piece by piece."""
    found: list[Any] = []
    for rows, weights in parts:
        own = family.statistics(rows) if isinstance(family, NaturalFamily) else (rows,)
        each = [weights.sum(0), *(weights.T @ values for values in own)]
        found = [a + b for a, b in zip(found, each, strict=True)] if found else each
    totals, *statistics = (np.asarray(each.cpu().numpy()) for each in found)
    return Sums(totals, statistics)


def fit(family: Family, known: Sums, parts: Iterable[tuple[Any, Any]]) -> None:
    """Fit the components to sums; Gaussian ones in a second sweep over the same pieces."""
    weights = known.totals[None, :]
    if isinstance(family, NaturalFamily):
        family.fit_sums(known.statistics, weights)
        return
    assert isinstance(family, Gaussian)
    family.means = means_of_sums(known.statistics[0], weights)
    family.fit_spreads(_spreads(family, parts), known.totals)


def _natural_density(family: NaturalFamily, like: Any) -> Callable[[Any], Any]:
    parameters, offsets = (family.natural()[0], on_device(family.natural()[1], like))
    slopes = [on_device(each, like).T for each in parameters]

    def found(rows: Any) -> Any:
        total = offsets
        for values, slope in zip(family.statistics(rows), slopes, strict=True):
            total = total + values @ slope
        base = family.base(rows)
        return total if base is None else total + base[:, None]

    return found


def _gaussian_density(family: Gaussian, like: Any) -> Callable[[Any], Any]:
    means, factors = (on_device(x, like) for x in (family.means, family.precisions_cholesky))
    half = 0.5 * family.means.shape[1] * np.log(2.0 * np.pi)
    logs = on_device(family.log_determinants() - half, like)
    if family.diagonal:
        factors = factors.reshape(len(means), 1, -1)

    def found(rows: Any) -> Any:
        scaled = rows - means[:, None]
        scaled = scaled.mul_(factors) if family.diagonal else scaled @ factors
        return (logs[:, None] - 0.5 * scaled.square_().sum(-1)).T

    return found


def _spreads(family: Gaussian, parts: Iterable[tuple[Any, Any]]) -> FloatArray:
    """Σw·(x − m)², or Σw·(x − m)(x − m)ᵀ, of every component."""
    found: Any = 0.0
    for rows, weights in parts:
        apart = rows - on_device(family.means, rows)[:, None]
        own = weights.T.contiguous()
        if family.diagonal:
            found = found + (own[:, None, :] @ apart.square_())[:, 0]
        else:
            found = found + (apart * own[:, :, None]).mT @ apart
    return np.asarray(found.cpu().numpy())


SMALLEST_PART = 1e-12
"""A component with less than this part of the weight gets it of every row, and stays finite."""
FAR = (
    "is so far from every component that its likelihood is 0; pass other means_init or "
    "precisions_init, or scale the data down, for example to unit variance"
)
# Responsibilities are kept between the two sweeps of one step up to so many: 256 MB.
_KEPT_VALUES = 2**25


def check_domain(rows: DeviceArray, family: Family, first_row: int) -> None:
    """Refuse the first row that the family is not defined for; it alone comes to the host."""
    domain = family.divergence.domain
    if domain.unbounded or not rows.size:
        return
    ends = [float(end) for end in rows.tensor.aminmax()]
    if domain.outside(ends).any():
        least, largest = rows.tensor.aminmax(dim=1)
        bad = domain.outside(least.cpu().numpy()) | domain.outside(largest.cpu().numpy())
        row = int(np.flatnonzero(bad)[0])
        family.divergence.check(np.asarray(rows[row : row + 1]), first_row + row)


class Answers(NamedTuple):
    """What is known of every row, each a DeviceArray."""

    found: tuple[DeviceArray, ...]
    first_lost: int | None
    """The first row whose likelihood is 0 or not a number."""


def answers(family: Family, mixing: FloatArray, rows: DeviceArray, *asked: str) -> Answers:
    """What is asked of every row: some of the names in `_OF_JOINT`."""
    import torch

    lost = torch.zeros(len(rows), dtype=torch.bool, device=rows.tensor.device)
    found: list[Any] = []
    joint = _joint(family, mixing, rows.tensor)
    for at in pieces(len(rows), families.piece_rows(family, *family.means.shape)):
        own = joint(rows.tensor[at].double())
        lost[at] = ~own.amax(1).isfinite()
        each = [_OF_JOINT[name](own) for name in asked]
        found = found or [part.new_empty((len(rows), *part.shape[1:])) for part in each]
        for whole, part in zip(found, each, strict=True):
            whole[at] = part
    return Answers(tuple(map(DeviceArray, found)), _first(lost))


def _joint(family: Family, mixing: FloatArray, like: Any) -> Callable[[Any], Any]:
    """ln π_j + ln p(row | j) as a function of float64 rows, of shape (n_rows, n_components)."""
    density = families.density(family, like)
    with np.errstate(divide="ignore"):
        logs = on_device(np.log(mixing), like)
    return lambda rows: density(rows) + logs


_OF_JOINT: dict[str, Callable[[Any], Any]] = {
    "joint": lambda joint: joint,
    "labels": lambda joint: joint.argmax(1).int(),
    "log-likelihood": lambda joint: joint.logsumexp(1),
    "responsibilities": lambda joint: (joint - joint.logsumexp(1, keepdim=True)).exp_(),
}


def _first(of: Any) -> int | None:
    """The place of the first True."""
    return int(of.byte().argmax()) if bool(of.any()) else None


class Shared(Protocol):
    """The part of every row that each component has."""

    @property
    def n_components(self) -> int:
        """Number of components."""

    def part(self, at: slice) -> Any:
        """That of some rows, a float64 tensor of shape (n_rows, n_components)."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Rows that belong to one component each."""

    labels: Any
    """A tensor of integers."""
    n_components: int

    @classmethod
    def of(cls, labels: Any, n_components: int, rows: DeviceArray) -> Labelled:
        """Labels of the host or of the device."""
        return cls(on_device(labels, rows.tensor), n_components)

    def part(self, at: slice) -> Any:
        """Ones and zeros."""
        from torch.nn.functional import one_hot

        return one_hot(self.labels[at].long(), self.n_components).double()


@dataclass(frozen=True, slots=True)
class Even:
    """Rows that belong to all components alike."""

    n_components: int
    like: Any
    """A tensor on the device."""

    def part(self, at: slice) -> Any:
        """The same number everywhere."""
        even = on_device(np.array([[1.0 / self.n_components]]), self.like)
        return even.expand(at.stop - at.start, self.n_components)


@dataclass(frozen=True, slots=True)
class Known:
    """Parts in a matrix of the host."""

    values: FloatArray
    like: Any
    """A tensor on the device."""

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    def part(self, at: slice) -> Any:
        """Copied to the device."""
        return on_device(self.values[at], self.like)


class Expected:
    """The E step: responsibilities, kept where they are few, and log-likelihoods."""

    def __init__(self, family: Family, mixing: FloatArray, rows: DeviceArray) -> None:
        import torch

        self.n_components, self._rows = len(mixing), rows.tensor
        self._joint = _joint(family, mixing, rows.tensor)
        self._keeps = len(rows) * len(mixing) <= _KEPT_VALUES
        self._kept: dict[int, Any] = {}
        self.log_likelihoods = torch.empty(
            len(rows), dtype=torch.float64, device=rows.tensor.device
        )

    def part(self, at: slice) -> Any:
        """Computed, together with the log-likelihoods; or as they were kept of the same rows."""
        if at.start in self._kept:
            return self._kept[at.start]
        joint = self._joint(self._rows[at].double())
        own = joint.logsumexp(1)
        self.log_likelihoods[at] = own
        found = (joint - own[:, None]).exp_()
        if self._keeps:
            self._kept[at.start] = found
        return found

    @property
    def first_lost(self) -> int | None:
        """The first row whose likelihood is 0, once all parts were asked for."""
        return _first(~self.log_likelihoods.isfinite())


class Weighted:
    """Rows on a device, with weights of mean one."""

    def __init__(self, rows: DeviceArray, weights: FloatArray) -> None:
        """Bring the weights, which have the mean one, to the device of the rows."""
        self.rows, self._weights = rows, on_device(weights, rows.tensor)
        self._total = float(weights.sum())

    def step(self, family: Family, mixing: FloatArray) -> tuple[float, FloatArray]:
        """One iteration: the mean log-likelihood before it, and the mixing weights after it."""
        shared = Expected(family, mixing, self.rows)
        known = self._sums(family, shared)
        lost = shared.first_lost
        if lost is not None:
            raise BadValueError(0, lost, None, np.inf, FAR)
        bound = float(self._weights @ shared.log_likelihoods) / self._total
        return bound, self._fit(family, shared, known)

    def maximize(self, family: Family, shared: Shared) -> FloatArray:
        """The M step: fit the family; return the mixing weights."""
        return self._fit(family, shared, self._sums(family, shared))

    def mixing(self, family: Family, shared: Shared) -> FloatArray:
        """The mixing weights alone, with the components as they are."""
        totals = self._sums(family, shared).totals
        totals = np.where(self._empty(totals), SMALLEST_PART * self._total, totals)
        return np.asarray(totals / totals.sum())

    def _fit(self, family: Family, shared: Shared, known: families.Sums) -> FloatArray:
        empty = self._empty(known.totals)
        if empty.any():
            known = self._sums(family, shared, empty)
        families.fit(family, known, self._parts(family, shared, empty))
        return np.asarray(known.totals / known.totals.sum())

    def _empty(self, totals: FloatArray) -> Mask:
        """The components that have next to no weight."""
        return np.asarray(totals <= SMALLEST_PART * self._total)

    def _sums(self, family: Family, shared: Shared, empty: Mask | None = None) -> families.Sums:
        return families.sums(family, self._parts(family, shared, empty))

    def _parts(
        self, family: Family, shared: Shared, empty: Mask | None
    ) -> Iterator[tuple[Any, Any]]:
        """Rows, and their weight in every component; `empty` ones get some of every row."""
        n_rows, n_features = self.rows.shape
        for at in pieces(n_rows, families.piece_rows(family, shared.n_components, n_features)):
            weights = self._weights[at, None]
            owned = weights * shared.part(at)
            if empty is not None and empty.any():
                owned[:, on_device(empty, owned)] = SMALLEST_PART * weights
            yield self.rows.tensor[at].double(), owned
