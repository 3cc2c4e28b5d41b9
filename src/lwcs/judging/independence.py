"""Whether draws know nothing of an answer: if it was fitted on them, it costs less there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincinv

from lwcs.trust.record import digest, digest_of_data

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.judging.targets import Costs
    from lwcs.trust.record import FittedOn

# Probability that centers which know nothing of the draws are so close to the means there.
_FALSE_ALARM = 1e-4
# As part of the sampling noise: a solver may have ended before its centers were the means.
_FAR_BELOW = 0.05
# So many rows are not all among those of other draws by chance, if these are less than half of all.
_MANY = 30
_INSTEAD = (
    "pass the data, a coreset that was built with another random_state, or a part of the draws "
    "that was kept apart by coreset.split before the fit"
)


class NotIndependentError(ValueError):
    """Draws know of a fit, so that what they say of its cost is too low."""


def refuse_fitted(model: Any, coreset: Coreset) -> None:
    """Refuse a coreset that a model of ours was fitted on, as far as it remembers."""
    if coreset.exact:
        return
    record: FittedOn | None = getattr(model, "fitted_on_", None)
    own: Coreset | None = getattr(model, "coreset_", None)
    drawn = digest(coreset)
    if (record is not None and record.draws == drawn) or (own is not None and digest(own) == drawn):
        raise NotIndependentError(
            "the model was fitted on this coreset, on which it costs less than on the data; "
            f"{_INSTEAD}"
        )
    if own is not None and (_is_among(coreset, own) or _is_among(own, coreset)):
        raise NotIndependentError(
            "the draws of this coreset are among those that the model was fitted on, or contain "
            f"them, and there it costs less than on the data; {_INSTEAD}"
        )
    if record is not None and _same_seed(record, coreset):
        raise NotIndependentError(
            "the model was fitted on draws of the same rows with the same seed "
            f"({coreset.seed}), which are not independent of these; {_INSTEAD}"
        )


def _same_seed(record: FittedOn, coreset: Coreset) -> bool:
    # Both parts of a split have one seed, and are independent of each other.
    if record.seed is None or "part_of" in coreset.details:
        return False
    own = (record.seed, record.n_samples, record.total_weight, record.data)
    other = (coreset.seed, coreset.n_samples, coreset.total_weight, digest_of_data(coreset))
    return own == other


def _is_among(part: Coreset, whole: Coreset) -> bool:
    """Whether all draws are among others, and that not by chance."""
    if part.n_samples != whole.n_samples or not _MANY <= len(part) <= len(whole):
        return False
    if 2 * len(whole) > whole.n_samples:
        return False
    at = np.minimum(np.searchsorted(whole.indices, part.indices), len(whole) - 1)
    same = whole.indices[at] == part.indices
    return bool(same.all() and (part.counts <= whole.counts[at]).all())


def look_fitted(coreset: Coreset, costs: Costs) -> bool:
    """Whether centers are the means of their clusters in a coreset, far below sampling noise.

    Means of independent draws miss any centers that know nothing of them by Σ w²·d/W in a cluster
    of weight W, or by more. The sum over clusters of what they miss is compared with that of a χ²
    distribution with as many degrees of freedom as there are clusters of comparable noise, which
    is fewer than there are.
    """
    if coreset.exact:
        return False
    rows, centers, labels = costs.rows, costs.centers, costs.labels
    k, geometry = len(centers), centers.geometry
    weights = coreset.omega / coreset.omega.max()
    inside, sums = rows.cluster_sums(weights, labels, np.ones(k, dtype=bool), centers)
    moved = geometry.means(centers, inside, sums)
    with np.errstate(all="ignore"):
        missed = inside * geometry.metric.between(moved.points, centers.points).sum(axis=1)
        squares = weights * (weights / coreset.counts) * costs.distances
        noise = np.bincount(labels, squares, minlength=k) / inside
    at = np.isfinite(noise) & (noise > 0.0) & np.isfinite(missed)
    if not at.any():
        return False
    noise, missed = noise[at] / noise[at].max(), missed[at] / noise[at].max()
    freedom = noise.sum() ** 2 / (noise**2).sum()
    # The quantile of χ²; scipy.stats takes a second to import.
    quantile = 2.0 * gammaincinv(freedom / 2.0, _FALSE_ALARM)
    limit = min(quantile / freedom, _FAR_BELOW)
    return bool(missed.sum() <= limit * noise.sum())
