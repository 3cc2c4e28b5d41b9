"""What a Bregman divergence is: a convex φ, and the gap between φ and its tangent.

    d(x, y) = φ(x) − φ(y) − ⟨∇φ(y), x − y⟩,   φ a sum over the columns (section 6 of the paper).

The weighted mean of rows is their best center under every one of them; any other center y
costs W·d(mean, y) more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Mask

_SLOPES = 4096


@dataclass(frozen=True, slots=True)
class Domain:
    """The numbers that a divergence is defined for: an interval, with its ends or without."""

    low: float = -np.inf
    high: float = np.inf
    closed: bool = True
    """Whether the ends belong to it."""

    def outside(self, values: Any) -> Mask:
        """Which values are not in it; NaN never is."""
        x = np.asarray(values)
        inside = (x >= self.low) & (x <= self.high) if self.closed else self.interior(x)
        return ~inside

    def interior(self, values: Any) -> Mask:
        """Which values are in it and not at its ends."""
        x = np.asarray(values)
        return (x > self.low) & (x < self.high)

    def __str__(self) -> str:
        less = "<=" if self.closed else "<"
        low = "" if np.isinf(self.low) else f"{self.low:g} {less} "
        high = "" if np.isinf(self.high) else f" {less} {self.high:g}"
        return f"{low}x{high}" if low or high else "any number"


class Divergence(ABC):
    """A Bregman divergence whose φ is a sum over the columns.

    A subclass gives `phi`, its derivative `gradient`, and its `domain`; that is enough. Where
    φ(x) − φ(y) − φ'(y)·(x − y) cancels, it should also give `between`, and `curvature` where φ''
    is known.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs.divergences import Divergence
    >>> class Quartic(Divergence):
    ...     name = "quartic"
    ...     def phi(self, x):
    ...         return x**4
    ...     def gradient(self, y):
    ...         return 4 * y**3
    >>> Quartic()(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    11.0
    """

    name: ClassVar[str]
    domain: ClassVar[Domain] = Domain()

    @abstractmethod
    def phi(self, x: FloatArray) -> FloatArray:
        """φ of every value."""

    @abstractmethod
    def gradient(self, y: FloatArray) -> FloatArray:
        """φ' of every value, in the interior of the domain."""

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """D of every value of x from that of y; overridden where the difference cancels."""
        return self.phi(x) - self.phi(y) - self.gradient(y) * (x - y)

    def __call__(self, x: Any, y: Any) -> Any:
        """d(x, y), summed over the last axis."""
        parts = self.between(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
        total = parts.sum(axis=-1)
        return float(total) if np.ndim(total) == 0 else total

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest φ'' on [low, high]; from slopes of φ' unless overridden."""
        if not low < high:
            step = max(abs(low), 1.0) * 1e-4
            low, high = max(low - step, self.domain.low), min(high + step, self.domain.high)
        grid = np.linspace(low, high, _SLOPES + 1)
        inner = grid[self.domain.interior(grid)]
        slopes = np.diff(self.gradient(inner)) / np.diff(inner)
        return float(slopes.min()), float(slopes.max())

    def similarity(self, low: float, high: float) -> float:
        """μ of the paper: μ·d_A ≤ d ≤ d_A on [low, high], with A = (largest φ'' / 2)·I."""
        least, largest = self.curvature(low, high)
        if not np.isfinite(largest) or largest <= 0.0:
            return 0.0
        return least / largest

    def quadratic(self, low: float, high: float) -> float:
        """The factor a of d_A(x, y) = a·‖x − y‖², which d does not exceed on [low, high]."""
        return 0.5 * self.curvature(low, high)[1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
