"""EM for rows on a device: what `mixture` does with NumPy arrays, piece by piece.

Rows stay where they are, and so does what is computed for every row. A matrix of all rows ×
components is made only where it is small, or asked for. Everything is computed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.device import DeviceArray, on_device
from lwcs.foundation.rows import pieces
from lwcs.solvers.families import on_device as families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.foundation.types import FloatArray, Mask
    from lwcs.solvers.families import Family

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
