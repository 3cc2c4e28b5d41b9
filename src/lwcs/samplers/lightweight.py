"""Lightweight coresets, the paper's own (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lwcs.arrays.checks import check_choice
from lwcs.samplers.around_mean import MeanDraw
from lwcs.samplers.sampler import Sampler

if TYPE_CHECKING:
    from lwcs.geometry import Geometry
    from lwcs.samplers.sampler import Draws, Run
    from lwcs.sources import Source


@dataclass(frozen=True)
class Lightweight(Sampler):
    """The paper's sampler: q(x) = ω/2Ω + ω·d(x, mean)/2Φ.

    Parameters
    ----------
    draws : {"iid", "stratified"}, default="iid"
        Independent draws, as in Theorem 2, or one draw in each of m equal strata of q. The latter
        are unbiased too, and their variance is no larger for any fixed centers, but the proof of
        the theorem does not cover them. Stratified draws take two passes.
    distance : {"divergence", "sqeuclidean"}, default="divergence"
        Distance that rows are sampled by, if clusters are measured by a divergence: the
        divergence d_φ(x, mean) itself, which takes one more pass, and two more for rows that are
        not in memory; or the paper's squared distance d_A = a·‖x − mean‖², which bounds it. Rows
        that can be read only once are always sampled by the latter.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((10_000, 3))
    >>> lwcs.build(X, 500, method=lwcs.Lightweight(draws="stratified"), random_state=0)
    Coreset(494 rows × 3, 500 draws by lightweight, stratified, of 10,000 rows)
    """

    draws: Literal["iid", "stratified"] = "iid"
    distance: Literal["divergence", "sqeuclidean"] = "divergence"
    name = "lightweight"

    def __post_init__(self) -> None:
        check_choice(self.draws, "draws", ("iid", "stratified"))
        check_choice(self.distance, "distance", ("divergence", "sqeuclidean"))

    @property
    def label(self) -> str:
        """What the metadata of a coreset calls it."""
        return self.name if self.draws == "iid" else f"{self.name}, {self.draws}"

    @property
    def _how(self) -> MeanDraw:
        return MeanDraw(self.draws == "stratified", self.distance == "sqeuclidean")

    def passes(self, source: Source, geometry: Geometry) -> int:
        """One where rows can be fetched by number or read only once, else two, or three."""
        return self._how.passes(source, geometry)

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows from q and weight them."""
        return self._how.draw(source, size, passes, run, self.name)
