"""Drift: what `lwcs.drift` found, in numbers and in plain words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from lwcs.runtime import formatting as markup
from lwcs.statistics.drift_tests import Estimate, ShareShift
from lwcs.storage.fields import finite_or_none

if TYPE_CHECKING:
    from lwcs.statistics.drift_tests import CostShift

_MOST_NAMED = 5
# A regret that is worth a word in the verdict.
_BETTER = 0.05


@dataclass(frozen=True, slots=True, repr=False)
class Drift:
    """Whether new rows are like those that a model was fitted on; made by `lwcs.drift`.

    ``str(drift)`` says it in plain words, and notebooks show it.

    Attributes
    ----------
    then : Estimate or None
        Cost per row of the rows that the model was fitted on: the mean distance from the nearest
        center, or minus the mean log-likelihood. Has `value`, `low`, `high` and `standard_error`.
        None where it is not known.
    now : Estimate
        The same for the new rows.
    fresh : Estimate
        Cost per row, on the new rows, of a fresh model with as many clusters.
    regret : Estimate
        How much more the model costs on the new rows than the fresh one, as a part of the cost of
        that one: 0.1 is 10 %. For mixtures, a difference in nats per row.
    shares : tuple of ShareShift
        One per cluster: `cluster`, its share `then` and `now`, the `difference` and its
        `standard_error`, and whether more than chance has `changed` it.
    drifted : bool
        The alarm: the cost per row or the share of a cluster has changed by more than chance.
    reasons : tuple of str
        Why, in words; empty without an alarm.
    notes : tuple of str
        What else has to be known, such as what could not be compared.
    confidence : float
        Confidence of the intervals, and probability of no alarm if nothing has changed.
    n_samples, size : int
        Number of new rows, and of draws that were made of them.
    unit : str
        What the cost of a row is: "squared distance", "divergence" or "minus log-likelihood".
    in_nats : bool
        Whether the regret is a difference in nats per row, as for mixtures.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (500, 2)) for center in (0.0, 10.0, 20.0)])
    >>> model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    >>> drift = lwcs.drift(model, X[:900], random_state=0)
    >>> drift.drifted, drift.changed_clusters
    (True, (...))
    >>> [share.now < share.then for share in drift.shares].count(True)
    1
    """

    then: Estimate | None
    now: Estimate
    fresh: Estimate
    regret: Estimate
    shares: tuple[ShareShift, ...]
    drifted: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    confidence: float
    n_samples: int
    size: int
    unit: str
    in_nats: bool

    @property
    def changed_clusters(self) -> tuple[int, ...]:
        """The clusters whose shares have changed by more than chance."""
        return tuple(share.cluster for share in self.shares if share.changed)

    def __bool__(self) -> bool:
        """Whether there is an alarm: ``if lwcs.drift(model, rows): …``."""
        return self.drifted

    def __repr__(self) -> str:
        return f"Drift({'drifted' if self.drifted else 'no alarm'}, regret {self.regret.value:.3g})"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON; numbers that are not finite are None."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def __str__(self) -> str:
        return "\n".join([self._verdict(), self._costs(), self._regret(), *self._remarks()])

    def _repr_html_(self) -> str:
        rows = [
            (
                share.cluster,
                _percent(share.then),
                _percent(share.now),
                _points(share.difference),
                _points(share.standard_error),
                "yes" if share.changed else "",
            )
            for share in self.shares
        ]
        names = ("cluster", "share at fit", "now", "difference", "standard error", "changed")
        lines = markup.paragraphs(str(self).splitlines())
        return f"<div>{lines}{markup.table(names, rows)}</div>"

    def _verdict(self) -> str:
        if self.drifted:
            return f"Drift: {'; '.join(self.reasons)}."
        if self.shares[0].then is None:
            return "Cannot tell whether the rows have drifted."
        what = "shares of clusters" if self.then is None else "cost per row and shares of clusters"
        if self.regret.low > _BETTER:
            return f"No drift in {what}, but a fresh fit would be clearly better."
        return f"No drift: {what} are as before, up to chance."

    def _costs(self) -> str:
        then = "" if self.then is None else f"at fit {_interval(self.then)}, "
        return (
            f"Cost per row ({self.unit}): {then}now {_interval(self.now)}, of a fresh fit "
            f"{_interval(self.fresh)}, with {_percent(self.confidence)} confidence each."
        )

    def _regret(self) -> str:
        regret = self.regret
        if regret.value == inf:
            return "Regret: a fresh fit costs nothing on the new rows, and the model does."
        if self.in_nats:
            found = f"{regret.value:.3g} nats per row ({regret.low:.3g} to {regret.high:.3g})"
        else:
            found = f"{_percent(regret.value)} ({_percent(regret.low)} to {_percent(regret.high)})"
        words = "what the model costs more than a fresh fit"
        if regret.high < 0.0:
            words = "a fresh fit on half of the draws is no better"
        return f"Regret, {words}: {found}."

    def _remarks(self) -> list[str]:
        return [f"Note: {note}." for note in self.notes]


def cost_words(then: float, now: float, shift: CostShift) -> list[str]:
    """The alarm by the cost per row, if there is one."""
    if not shift.changed:
        return []
    moved = "risen" if shift.difference > 0.0 else "fallen"
    return [f"the cost per row has {moved} from {then:.4g} to {now:.4g}, more than chance explains"]


def regret_words(regret: float, *, in_nats: bool) -> str:
    """The alarm by the regret."""
    if regret == inf:
        return "a fresh fit costs nothing, and the model does"
    more = f"{regret:.3g} nats per row" if in_nats else _percent(regret)
    return f"the model costs {more} more than a fresh fit on these rows"


def share_words(shares: tuple[ShareShift, ...]) -> list[str]:
    """The alarm by shares, if there is one: the clusters that have changed most."""
    changed = [share for share in shares if share.changed and share.difference is not None]
    changed.sort(key=lambda share: -abs(share.difference or 0.0))
    words = [
        "cluster {} has {} of the rows instead of {}".format(
            share.cluster, *_unlike(share.now, share.then or 0.0)
        )
        for share in changed[:_MOST_NAMED]
    ]
    if len(changed) > _MOST_NAMED:
        words.append(f"and so on for {len(changed) - _MOST_NAMED:,} further clusters")
    return words


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return finite_or_none(value)


def _interval(found: Estimate) -> str:
    return f"{found.value:.4g} ({found.low:.4g} to {found.high:.4g})"


def _percent(part: float | None) -> str:
    return "–" if part is None else markup.plain_percent(part)


def _unlike(one: float, other: float) -> tuple[str, str]:
    """Two different parts as percentages, with as many digits as it takes to tell them apart."""
    for digits in range(3, 17):
        first, second = (markup.plain_percent(part, digits) for part in (one, other))
        if first != second:
            break
    return first, second


def _points(part: float | None) -> str:
    return "–" if part is None else f"{100.0 * part:+.2g} points"
