"""What a Bregman divergence is: a convex φ, and the gap between φ and its tangent.

    d(x, y) = φ(x) − φ(y) − ⟨∇φ(y), x − y⟩,   φ a sum over the columns (section 6 of the paper).

The weighted mean of rows is their best center under every one of them; any other center y
costs W·d(mean, y) more. Some look at rows in another way first (`forward`): by their direction,
their shares, or in other coordinates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from lwcs.foundation.checks import BadValueError, place_of
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, Mask, Rows

_SLOPES = 4096
# The slope of φ where it has no end: steeper than that of ln at the smallest number there is.
_STEEP = 1e3


@dataclass(frozen=True, slots=True)
class Domain:
    """The numbers that a divergence is defined for: an interval, with its ends or without."""

    low: float = -np.inf
    high: float = np.inf
    closed: bool = True
    """Whether the ends belong to it."""

    @property
    def everything(self) -> bool:
        """Whether all finite numbers are in it."""
        return np.isinf(self.low) and np.isinf(self.high)

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
        equal = "=" if self.closed else ""
        if np.isinf(self.low):
            return "any number" if np.isinf(self.high) else f"x <{equal} {self.high:g}"
        if np.isinf(self.high):
            return f"x >{equal} {self.low:g}"
        return f"{self.low:g} <{equal} x <{equal} {self.high:g}"


class Divergence(ABC):
    """A Bregman divergence whose φ is a sum over the columns.

    A subclass gives `phi`, its derivative `gradient`, and its `domain`; that is enough. Where
    φ(x) − φ(y) − φ'(y)·(x − y) cancels, it should also give `between`, and `curvature` where φ''
    is known. Once its class is defined, its name stands for it, also in files.

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
    remedy: ClassVar[str] = "leave such rows out, or choose another divergence"
    """What to do about values outside of the domain, or infinitely far from every center."""
    squared: ClassVar[bool] = False
    """Whether it is the squared distance of rows as `forward` gives them."""
    constrained: ClassVar[bool] = False
    """Whether a mean of rows may be no center as it is (`settled`)."""
    smoothing: float = 0.0
    """τ: rows are measured as (1 − τ)·x + τ·mean."""
    zero: float = 0.0
    """What `forward` makes of a zero that sparse rows leave out."""

    _known: ClassVar[dict[str, type[Divergence]]] = {}

    def __init_subclass__(cls, *, listed: bool = True, **options: Any) -> None:
        """Make the name stand for the class; without one, it is called like the class."""
        super().__init_subclass__(**options)
        if not listed:
            return
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        taken = Divergence._known.get(cls.name)
        if taken is not None and taken.__module__.startswith("lwcs."):
            raise TypeError(
                f"name={cls.name!r} is that of {taken.__name__}; call {cls.__name__} otherwise"
            )
        Divergence._known[cls.name] = cls

    @abstractmethod
    def phi(self, x: FloatArray) -> FloatArray:
        """φ of every value."""

    @abstractmethod
    def gradient(self, y: FloatArray) -> FloatArray:
        """φ' of every value, in the interior of the domain."""

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """D of every value of x from that of y; overridden where the difference cancels."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.phi(x) - self.phi(y) - self.gradient(y) * (x - y)
        # At an end of the domain the slope may be infinite: from there, all else is infinitely far.
        return np.where(x == y, 0.0, np.where(np.isnan(found) & ~np.isnan(x), np.inf, found))

    def __call__(self, x: Any, y: Any) -> Any:
        """d(x, y), summed over the last axis; without smoothing, which is towards a mean."""
        one, other = (np.asarray(each, dtype=np.float64) for each in (x, y))
        for each in (one, other):
            try:
                self.check(np.atleast_2d(each), 0)
            except BadValueError as bad:
                raise bad.explained(0, "", None) from None
        parts = self.between(*(self._forward_dense(each) for each in (one, other)))
        total = parts.sum(axis=-1)
        return float(total) if np.ndim(total) == 0 else total

    def _forward_dense(self, values: FloatArray) -> FloatArray:
        rows = self.forward(np.atleast_2d(values))
        return rows if values.ndim > 1 else rows[0]

    def forward(self, rows: Rows) -> Rows:
        """Rows as φ sees them; sparse ones stay sparse, at the same places."""
        return rows

    def inward(self, points: FloatArray) -> FloatArray:
        """Points in the units of the data, such as centers, in the coordinates of `forward`."""
        return points

    def backward(self, points: FloatArray) -> FloatArray:
        """Undo `inward`."""
        return points

    def settled(self, centers: FloatArray) -> FloatArray:
        """Centers, from means of rows or from a user, as they are allowed to be."""
        return centers

    def tidy(self, values: FloatArray) -> FloatArray:
        """Values without what rounding did to those at an end of the domain."""
        return values

    def tangents(self, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """∇φ(c) and φ(c) − ⟨∇φ(c), c⟩ of every center: d(x, c) = φ(x) − (x·slope + offset).

        At an end of the domain the slope may be infinite; a finite one that is steeper than any
        other tells centers apart as well, and a value there times it is no NaN.
        """
        with np.errstate(divide="ignore"):
            slopes = np.nan_to_num(self.gradient(centers), posinf=_STEEP, neginf=-_STEEP)
        return slopes, self.phi(centers).sum(axis=1) - np.einsum("ij,ij->i", slopes, centers)

    def tangents_around(
        self, centers: FloatArray, origin: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """∇φ(c) − ∇φ(o) and −d(o, c): d(x, c) = d(x, o) − ((x − o)·slope + offset).

        That is the three-point identity. Near o nothing large is subtracted, so that centers far
        from zero and near each other can be told apart.
        """
        slopes, here = self.tangents(centers)[0], self.tangents(origin[None, :])[0]
        with np.errstate(invalid="ignore"):
            apart = self.between(origin, centers)
            endless = ~np.isfinite(apart)
            if endless.any():
                # By the same finite slope that stands in for an infinite one.
                finite = self.phi(origin) - self.phi(centers) - slopes * (origin - centers)
                apart = np.where(endless, finite, apart)
        return slopes - here, -apart.sum(axis=1)

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows, as they come, that are outside of the domain."""
        if self.domain.everything:
            return
        values = rows.data if is_sparse(rows) else rows
        if values.size and self.domain.outside([values.min(), values.max()]).any():
            outside = self.domain.outside(values)
            at = int(np.flatnonzero(outside)[0])
            row, column = place_of(rows, at)
            value = float(values.ravel()[at])
            wants = "" if not np.isfinite(value) else self._wants(value)
            raise BadValueError(0, first_row + row, column, value, wants)
        if is_sparse(rows) and self.domain.outside(0.0):
            lengths = np.diff(rows.indptr)
            short = np.flatnonzero(lengths < rows.shape[1])
            if len(short):
                row = int(short[0])
                there = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
                column = int(np.setdiff1d(np.arange(rows.shape[1]), there)[0])
                raise BadValueError(0, first_row + row, column, 0.0, self._wants(0.0))

    def _wants(self, value: float) -> str:
        # In these words scikit-learn's tools look for it.
        negative = " (Negative values in data)" if value < 0.0 == self.domain.low else ""
        family = getattr(self, "_family", None)
        if family is None:
            return f"divergence={self.name!r} takes {self.domain}{negative}: {self.remedy}"
        rest = "leave such rows out, or choose another family"
        return f"family={family!r} takes {self.domain}{negative}: {rest}"

    def of_family(self, family: str) -> Self:
        """Belong to the mixtures of a family: errors then name that."""
        self._family = family
        return self

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest φ'' on [low, high].

        Unless overridden, from slopes of φ' between 4,097 points: about right.
        """
        if not low < high:
            step = max(abs(low), 1.0) * 1e-4
            low, high = max(low - step, self.domain.low), min(high + step, self.domain.high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = self.gradient(np.array([low, high]))
        grid = np.linspace(low, high, _SLOPES + 1)
        inner = grid[self.domain.interior(grid)]
        slopes = np.diff(self.gradient(inner)) / np.diff(inner)
        return float(slopes.min()), float(slopes.max()) if np.isfinite(ends).all() else np.inf

    def similarity(self, low: float, high: float) -> float:
        """μ of the paper: μ·d_A ≤ d ≤ d_A on [low, high], with A = (largest φ'' / 2)·I."""
        least, largest = self.curvature(low, high)
        if not np.isfinite(largest) or largest <= 0.0:
            return 0.0
        return least / largest

    def quadratic(self, low: float, high: float) -> float:
        """The factor a of d_A(x, y) = a·‖x − y‖², which d does not exceed on [low, high]."""
        return 0.5 * self.curvature(low, high)[1]

    def remembered(self) -> dict[str, Any]:
        """The parameters, if they make it anew: what a file may hold."""
        found = self.parameters()
        try:
            again = type(self)(**found)
        except TypeError:
            again = None
        if again != self:
            raise TypeError(
                f"{self!r} cannot be made anew from its parameters {found}, so that no file can "
                "hold it; keep every argument of __init__ under its own name, and other values "
                "under _names"
            )
        return found

    def parameters(self) -> dict[str, Any]:
        """What it was made with, as JSON has it."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in own.items()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({parts})"
