"""The contract of a Bregman divergence: a convex φ, and the gap between φ and its tangent.

    d(x, y) = φ(x) − φ(y) − ⟨∇φ(y), x − y⟩,   φ a sum over the columns (section 6 of the paper).

The weighted mean of rows is their best center under every one of them; any other center y
costs W·d(mean, y) more. Some transform the rows first (`transform`): to unit length, to shares,
or to other coordinates. Everything here is mathematics on values; how the rows of a data set
are measured with it (scale, smoothing, dense or sparse, in which precision) is a `Geometry`.

Registered names are classes, not instances: a subclass of `Divergence` registers its name, so that
a file stores the name and the parameters of its divergence, and nothing is unpickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from lwcs.arrays.checks import BadValueError, check_choice
from lwcs.arrays.device import library_of
from lwcs.arrays.rows import first_implicit_zero, place_of, stored_values
from lwcs.storage.fields import NotDefinedError

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, Mask, Rows

_SLOPES = 4096
# Used for an infinite slope of φ: steeper than that of ln at the smallest positive number.
_STEEP = 1e3


def library_for(values: Any) -> Any:
    """NumPy, or torch for a tensor: for calls of functions that have the same name in both."""
    if isinstance(values, np.ndarray) or library_of(values) != "torch":
        return np
    import torch

    return torch


@dataclass(frozen=True, slots=True)
class Domain:
    """The numbers that a divergence is defined for: an interval, with or without its ends.

    Examples
    --------
    >>> from lwcs.divergences import Domain
    >>> shares = Domain(low=0.0, high=1.0)
    >>> print(shares)
    0 <= x <= 1
    >>> shares.outside([0.5, 1.5]).tolist()
    [False, True]
    """

    low: float = -np.inf
    high: float = np.inf
    closed: bool = True
    """Whether the ends belong to the domain."""

    @property
    def unbounded(self) -> bool:
        """Whether it contains all finite numbers."""
        return np.isinf(self.low) and np.isinf(self.high)

    def outside(self, values: Any) -> Mask:
        """Which values are not in the domain; NaN never is."""
        x = values if library_for(values) is not np else np.asarray(values)
        inside = (x >= self.low) & (x <= self.high) if self.closed else self.interior(x)
        return ~inside

    def interior(self, values: Any) -> Mask:
        """Which values are in the domain, its ends excluded."""
        x = values if library_for(values) is not np else np.asarray(values)
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

    A subclass defines `phi`, its derivative `gradient`, and its `domain`; that is enough. It
    should also define `between` where φ(x) − φ(y) − φ'(y)·(x − y) cancels, and `curvature` where
    φ'' is known. A class is registered under its `name` when it is defined: the name can then be
    passed as `divergence=`, and files that were saved with it can be loaded.

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
    remedy: ClassVar[str] = "drop such rows, or choose another divergence"
    """Advice about values outside of the domain, or infinitely far from every center."""
    squared: ClassVar[bool] = False
    """Whether it is the squared Euclidean distance of the transformed rows."""
    smoothing: float = 0.0
    """τ: rows are measured as (1 − τ)·x + τ·mean."""
    runs_on_device: bool = False
    """Whether `phi`, `between` and `transform` take torch tensors of float64 as well.

    If they do not, rows on a device are measured on the host. The value is not inherited, since a
    subclass may override any of these.
    """

    _known: ClassVar[dict[str, type[Divergence]]] = {}

    def __init_subclass__(cls, *, listed: bool = True, **options: Any) -> None:
        """Register the class under its name, which is by default that of the class."""
        super().__init_subclass__(**options)
        if "runs_on_device" not in vars(cls):
            cls.runs_on_device = False
        if not listed:
            return
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        taken = Divergence._known.get(cls.name)
        if taken is not None and taken.__module__.startswith("lwcs."):
            raise TypeError(
                f"name={cls.name!r} is already the name of {taken.__name__}; choose another name "
                f"for {cls.__name__}"
            )
        Divergence._known[cls.name] = cls

    @abstractmethod
    def phi(self, x: FloatArray) -> FloatArray:
        """φ of every value."""

    @abstractmethod
    def gradient(self, y: FloatArray) -> FloatArray:
        """φ' of every value, in the interior of the domain."""

    def gradient_difference(self, y: FloatArray, origin: FloatArray) -> FloatArray | None:
        """φ'(y) − φ'(origin) for every value, if it can be computed without cancellation."""
        del y, origin
        return None

    def between(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """d(x, y) for every value; overridden where the difference cancels."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.phi(x) - self.phi(y) - self.gradient(y) * (x - y)
        # Where the slope is infinite, at an end of the domain, all other values are infinitely far.
        return np.where(x == y, 0.0, np.where(np.isnan(found) & ~np.isnan(x), np.inf, found))

    def __call__(self, x: Any, y: Any) -> Any:
        """d(x, y), summed over the last axis, without smoothing."""
        one, other = (np.asarray(each, dtype=np.float64) for each in (x, y))
        for each in (one, other):
            try:
                self.check(np.atleast_2d(each), 0)
            except BadValueError as bad:
                raise bad.explained(0, "", None) from None
        parts = self.between(*(self._transform_values(each) for each in (one, other)))
        total = parts.sum(axis=-1)
        return float(total) if np.ndim(total) == 0 else total

    def _transform_values(self, values: FloatArray) -> FloatArray:
        rows = self.transform(np.atleast_2d(values))
        return rows if values.ndim > 1 else rows[0]

    def transform(self, rows: Rows) -> Rows:
        """Rows as φ takes them; sparse rows may stay sparse, with the same indices."""
        return rows

    @property
    def zero(self) -> float:
        """The value that `transform` gives to a zero that sparse rows do not store."""
        return 0.0

    def to_coordinates(self, points: FloatArray) -> FloatArray:
        """Points such as means in the linear coordinates of `transform`."""
        return points

    def from_coordinates(self, points: FloatArray) -> FloatArray:
        """The inverse of `to_coordinates`."""
        return points

    def constrain(self, centers: FloatArray) -> FloatArray:
        """Means of transformed rows as valid centers, for example of unit length."""
        return centers

    def round_to_domain(self, values: FloatArray) -> FloatArray:
        """Undo the rounding of values at an end of the domain."""
        return values

    def slopes(self, points: FloatArray) -> FloatArray:
        """∇φ, with a finite slope instead of an infinite one."""
        with np.errstate(divide="ignore"):
            return finite_slopes(self.gradient(points))

    def check(self, rows: Rows, first_row: int) -> None:
        """Refuse rows, as they are in the data, that are outside of the domain."""
        if self.domain.unbounded:
            return
        values = stored_values(rows)
        if values.size and self.domain.outside([values.min(), values.max()]).any():
            at = int(np.flatnonzero(self.domain.outside(values))[0])
            row, column = place_of(rows, at)
            value = float(values[at])
            wants = "" if not np.isfinite(value) else self._wants(value)
            raise BadValueError(0, first_row + row, column, value, wants)
        if self.domain.outside(0.0) and (place := first_implicit_zero(rows)) is not None:
            raise BadValueError(0, first_row + place[0], place[1], 0.0, self._wants(0.0))

    def first_refused(self, rows: Any) -> int | None:
        """The row of a tensor that `check` would refuse, if any."""
        if self.domain.unbounded or not rows.numel():
            return None
        if not self.domain.outside([float(end) for end in rows.aminmax()]).any():
            return None
        return first_of(self.domain.outside(rows).any(axis=1))

    def _wants(self, value: float) -> str:
        # scikit-learn's estimator checks look for these words.
        negative = " (Negative values in data)" if value < 0.0 == self.domain.low else ""
        family = getattr(self, "_family", None)
        if family is None:
            return f"divergence={self.name!r} requires {self.domain}{negative}: {self.remedy}"
        rest = "drop such rows, or choose another family"
        return f"family={family!r} requires {self.domain}{negative}: {rest}"

    def of_family(self, family: str) -> Self:
        """Make errors name a family of mixtures instead of this divergence."""
        self._family = family
        return self

    def curvature(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest φ'' on [low, high].

        Unless overridden, estimated from differences of φ' between 4,097 points.
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

    def saved_parameters(self) -> dict[str, Any]:
        """The parameters to save, after a check that they recreate this divergence."""
        found = self.parameters()
        try:
            again = type(self)(**found)
        except TypeError:
            again = None
        if again != self:
            raise TypeError(
                f"{self!r} cannot be saved, since its parameters {found} do not recreate it; store "
                "every argument of __init__ in an attribute of the same name, and other values in "
                "attributes that begin with an underscore"
            )
        return found

    def parameters(self) -> dict[str, Any]:
        """The arguments that it was created with, as JSON can hold them."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in own.items()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({parts})"


def available() -> dict[str, type[Divergence]]:
    """The registered divergences by name: those of this library, and yours once defined.

    Examples
    --------
    >>> from lwcs import divergences
    >>> [name for name in divergences.available() if name.startswith("k")]
    ['kl', 'kl_simplex']
    """
    return dict(Divergence._known)


def as_divergence(divergence: Any) -> Divergence:
    """The divergence with a name; a divergence is returned as it is."""
    if isinstance(divergence, Divergence):
        return divergence
    if isinstance(divergence, type) and issubclass(divergence, Divergence):
        raise TypeError(
            f"divergence={divergence.__name__} is a class; pass an instance, "
            f"{divergence.__name__}(…)"
        )
    if not isinstance(divergence, str):
        raise TypeError(
            f"divergence={divergence!r} is not a divergence; pass one of "
            f"{', '.join(map(repr, available()))}, or an object such as "
            "lwcs.divergences.KL(smoothing=0.2)"
        )
    check_choice(divergence, "divergence", tuple(available()))
    if divergence == "mahalanobis":
        raise ValueError(
            "divergence='mahalanobis' needs a matrix; pass lwcs.divergences.Mahalanobis(precision)"
        )
    return available()[divergence]()


def from_saved(name: str, parameters: dict[str, Any]) -> Divergence:
    """The divergence that a file names, with the parameters that were saved."""
    if name not in available():
        raise NotDefinedError(
            f"was saved with divergence={name!r}, which is not registered here; import the module "
            "that defines this class first"
        )
    return available()[name](**parameters)


def first_of(rows: Any) -> int | None:
    """The first row in a mask on a device, if any."""
    return int(rows.byte().argmax()) if bool(rows.any()) else None


def finite_slopes(slopes: FloatArray) -> FloatArray:
    """Replace infinite slopes by a finite one that is steeper than any other.

    It tells centers apart as well, and a zero times it is not NaN.
    """
    return np.nan_to_num(slopes, posinf=_STEEP, neginf=-_STEEP)
