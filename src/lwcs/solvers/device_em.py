"""The steps of EM for rows on a device, for the built-in families.

Rows are float64 tensors, a piece at a time, so that temporaries have a limit. Parameters of the
components are NumPy arrays before and after, and go to the device once for all pieces. The methods
of the families themselves, for NumPy arrays, are the oracle (`host_em`, with the same functions).
An E step and the M step after it take one sweep over the rows, or two for Gaussian components,
whose covariances need the means: so the text of the host, which keeps one number per row and
component, cannot be that of a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import pieces
from lwcs.solvers.families.family import NaturalFamily, means_of_sums
from lwcs.solvers.families.gaussian import Gaussian
from lwcs.solvers.host_em import FAR, SMALLEST_PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.arrays.types import FloatArray, Mask
    from lwcs.solvers.families import Family

# Values of one temporary; there are two at a time, of 128 MB each.
_PIECE_VALUES = 2**24
# Most responsibilities that are kept between the two sweeps of one iteration: 256 MB.
_KEPT_VALUES = 2**25


def check_domain(rows: DeviceArray, family: Family, first_row: int) -> None:
    """Refuse rows outside of the domain of a family; only the first one is copied to the host."""
    domain = family.divergence.domain
    if domain.unbounded or not rows.size:
        return
    ends = [float(end) for end in rows.tensor.aminmax()]
    if domain.outside(ends).any():
        least, largest = rows.tensor.aminmax(dim=1)
        bad = domain.outside(least.cpu().numpy()) | domain.outside(largest.cpu().numpy())
        row = int(np.flatnonzero(bad)[0])
        family.divergence.check(np.asarray(rows[row : row + 1]), first_row + row)


def evaluate(family: Family, mixing: FloatArray, rows: DeviceArray, what: str) -> DeviceArray:
    """Compute one of `_EVALUATIONS` for every row."""
    return evaluate_and_check(family, mixing, rows, what)[0]


def evaluate_and_check(
    family: Family, mixing: FloatArray, rows: DeviceArray, what: str
) -> tuple[DeviceArray, int | None]:
    """`evaluate`, and the first row whose likelihood is 0 or not a number."""
    import torch

    lost = torch.zeros(len(rows), dtype=torch.bool, device=rows.tensor.device)
    values: Any = None
    joint_of = _joint(family, mixing, rows.tensor)
    for at in pieces(len(rows), _piece_rows(family, *family.means.shape)):
        joint = joint_of(rows.tensor[at].double())
        lost[at] = ~joint.amax(1).isfinite()
        part = _EVALUATIONS[what](joint)
        if values is None:
            values = part.new_empty((len(rows), *part.shape[1:]))
        values[at] = part
    return DeviceArray(values), _first_true(lost)


_EVALUATIONS: dict[str, Callable[[Any], Any]] = {
    "joint": lambda joint: joint,
    "labels": lambda joint: joint.argmax(1).int(),
    "log-likelihood": lambda joint: joint.logsumexp(1),
    "responsibilities": lambda joint: (joint - joint.logsumexp(1, keepdim=True)).exp_(),
}


def _first_true(flags: Any) -> int | None:
    return int(flags.byte().argmax()) if bool(flags.any()) else None


def _piece_rows(family: Family, k: int, n_features: int) -> int:
    """Number of rows to compute with at a time, for k components."""
    per_row = k + n_features if isinstance(family, NaturalFamily) else k * n_features
    return max(1, _PIECE_VALUES // per_row)


def _joint(family: Family, mixing: FloatArray, like: Any) -> Callable[[Any], Any]:
    """ln π_j + ln p(row | j) as a function of rows on the device of `like`."""
    density = _natural_density if isinstance(family, NaturalFamily) else _gaussian_density
    log_density = density(family, like)
    with np.errstate(divide="ignore"):
        log_mixing = on_device(np.log(mixing), like)
    return lambda rows: log_density(rows) + log_mixing


def _natural_density(family: Any, like: Any) -> Callable[[Any], Any]:
    parameters, offsets = family.natural()
    offsets = on_device(offsets, like)
    slopes = [on_device(each, like).T for each in parameters]

    def log_density(rows: Any) -> Any:
        total = offsets
        for values, slope in zip(family.statistics(rows), slopes, strict=True):
            total = total + values @ slope
        base = family.base(rows)
        return total if base is None else total + base[:, None]

    return log_density


def _gaussian_density(family: Any, like: Any) -> Callable[[Any], Any]:
    means, factors = (on_device(x, like) for x in (family.means, family.precisions_cholesky))
    half = 0.5 * family.means.shape[1] * np.log(2.0 * np.pi)
    logs = on_device(family.log_determinants() - half, like)
    if family.diagonal:
        factors = factors.reshape(len(means), 1, -1)

    def log_density(rows: Any) -> Any:
        scaled = rows - means[:, None]
        scaled = scaled.mul_(factors) if family.diagonal else scaled @ factors
        return (logs[:, None] - 0.5 * scaled.square_().sum(-1)).T

    return log_density


@dataclass(frozen=True, slots=True)
class Shared:
    """Responsibilities of all rows, which are computed or copied for some rows at a time."""

    n_components: int
    part: Callable[[slice], Any]
    """Those of some rows, a float64 tensor of shape (n_rows, n_components)."""


def from_host(responsibilities: FloatArray, like: Any) -> Shared:
    """Responsibilities in a NumPy array, for rows on the device of `like`."""
    return Shared(responsibilities.shape[1], lambda at: on_device(responsibilities[at], like))


def labelled(labels: Any, k: int, rows: DeviceArray) -> Shared:
    """Responsibilities of rows that belong to one component each; labels of host or device."""
    from torch.nn.functional import one_hot

    labels = on_device(labels, rows.tensor).long()
    return Shared(k, lambda at: one_hot(labels[at], k).double())


def even(k: int, rows: DeviceArray) -> Shared:
    """Responsibilities of rows that belong to all components alike."""
    share = on_device(np.array([[1.0 / k]]), rows.tensor)
    return Shared(k, lambda at: share.expand(at.stop - at.start, k))


def expected(family: Family, mixing: FloatArray, rows: DeviceArray) -> Shared:
    """Responsibilities for `Steps.maximize`, which stay on the device."""
    return EStep(family, mixing, rows).shared


def start_rows(family: Family, rows: DeviceArray) -> DeviceArray:
    """The rows that starting clusters are computed from, in float64, on the device."""
    return DeviceArray(family.start_rows(rows.tensor.double()))


def weighted_sum(points: DeviceArray, weights: FloatArray) -> FloatArray:
    """The weighted sum of rows, on the host."""
    return np.asarray(DeviceArray(on_device(weights, points.tensor) @ points.tensor))


class EStep:
    """Responsibilities, which are kept for the second sweep where they are few; log-likelihoods."""

    def __init__(self, family: Family, mixing: FloatArray, rows: DeviceArray) -> None:
        import torch

        tensor = rows.tensor
        self._tensor, self._joint = tensor, _joint(family, mixing, tensor)
        self._keeps = len(rows) * len(mixing) <= _KEPT_VALUES
        self._kept: dict[int, Any] = {}
        self.shared = Shared(len(mixing), self._part)
        self.log_likelihoods = torch.empty(len(rows), dtype=torch.float64, device=tensor.device)

    def _part(self, at: slice) -> Any:
        if at.start in self._kept:
            return self._kept[at.start]
        joint = self._joint(self._tensor[at].double())
        self.log_likelihoods[at] = joint.logsumexp(1)
        responsibilities = (joint - self.log_likelihoods[at, None]).exp_()
        if self._keeps:
            self._kept[at.start] = responsibilities
        return responsibilities

    @property
    def first_lost(self) -> int | None:
        """The first row whose likelihood is 0, after a sweep over all rows."""
        return _first_true(~self.log_likelihoods.isfinite())


class _Sums(NamedTuple):
    """The results of the first sweep, on the host."""

    totals: FloatArray
    """The weight of every component."""
    statistics: list[FloatArray]
    """Weighted sums of the statistics; for Gaussian components, of the rows themselves."""


class DeviceSteps:
    """Rows on a device, and their weights, which have the mean one."""

    def __init__(self, rows: DeviceArray, weights: FloatArray) -> None:
        self._rows, self._weights = rows, on_device(weights, rows.tensor)
        self._total = float(weights.sum())

    def step(self, family: Family, mixing: FloatArray) -> tuple[float, FloatArray]:
        """One iteration: the mean log-likelihood before it, and the mixing weights after it."""
        e_step = EStep(family, mixing, self._rows)
        sums = self._sums(family, e_step.shared)
        lost = e_step.first_lost
        if lost is not None:
            raise BadValueError(0, lost, None, np.inf, FAR)
        bound = float(self._weights @ e_step.log_likelihoods) / self._total
        return bound, self._fit(family, e_step.shared, sums)

    def maximize(self, family: Family, shared: FloatArray | Shared) -> FloatArray:
        """The M step: fit the family; return the mixing weights."""
        shared = self._shared(shared)
        return self._fit(family, shared, self._sums(family, shared))

    def mixing(self, family: Family, shared: FloatArray | Shared) -> FloatArray:
        """The mixing weights alone, with the components as they are."""
        totals = self._sums(family, self._shared(shared)).totals
        totals = np.where(self._is_empty(totals), SMALLEST_PART * self._total, totals)
        return np.asarray(totals / totals.sum())

    def _shared(self, shared: FloatArray | Shared) -> Shared:
        """Responsibilities may be a NumPy array as well."""
        if isinstance(shared, Shared):
            return shared
        return from_host(shared, self._rows.tensor)

    def _is_empty(self, totals: FloatArray) -> Mask:
        return np.asarray(totals <= SMALLEST_PART * self._total)

    def _sums(self, family: Family, shared: Shared, empty: Mask | None = None) -> _Sums:
        """Sweep over the rows; `empty` components get a small part of every row."""
        sums: list[Any] = []
        for rows, weights in self._parts(family, shared, empty):
            statistics = family.statistics(rows) if isinstance(family, NaturalFamily) else (rows,)
            each = [weights.sum(0), *(weights.T @ values for values in statistics)]
            sums = [a + b for a, b in zip(sums, each, strict=True)] if sums else each
        totals, *sums = (np.asarray(each.cpu().numpy()) for each in sums)
        return _Sums(totals, sums)

    def _fit(self, family: Family, shared: Shared, sums: _Sums) -> FloatArray:
        """Fit the components; Gaussian ones in a second sweep over the same pieces."""
        empty = self._is_empty(sums.totals)
        if empty.any():
            sums = self._sums(family, shared, empty)
        weights = sums.totals[None, :]
        if isinstance(family, NaturalFamily):
            family.fit_sums(sums.statistics, weights)
        else:
            assert isinstance(family, Gaussian)
            family.means = means_of_sums(sums.statistics[0], weights)
            family.fit_spreads(self._spreads(family, shared, empty), sums.totals)
        return np.asarray(sums.totals / sums.totals.sum())

    def _spreads(self, family: Gaussian, shared: Shared, empty: Mask) -> FloatArray:
        """Σw·(x − m)², or Σw·(x − m)(x − m)ᵀ, of every component."""
        spreads: Any = 0.0
        for rows, weights in self._parts(family, shared, empty):
            offsets = rows - on_device(family.means, rows)[:, None]
            weights = weights.T.contiguous()
            if family.diagonal:
                spreads = spreads + (weights[:, None, :] @ offsets.square_())[:, 0]
            else:
                spreads = spreads + (offsets * weights[:, :, None]).mT @ offsets
        return np.asarray(spreads.cpu().numpy())

    def _parts(
        self, family: Family, shared: Shared, empty: Mask | None
    ) -> Iterator[tuple[Any, Any]]:
        """Pieces of the rows, and the weight of each row in every component."""
        n_rows, n_features = self._rows.shape
        for at in pieces(n_rows, _piece_rows(family, shared.n_components, n_features)):
            weights = self._weights[at, None]
            owned = weights * shared.part(at)
            if empty is not None and empty.any():
                owned[:, on_device(empty, owned)] = SMALLEST_PART * weights
            yield self._rows.tensor[at].double(), owned


Steps = DeviceSteps
