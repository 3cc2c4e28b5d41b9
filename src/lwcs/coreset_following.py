"""The arrays of a coreset: in the library and on the device of X, and as they are computed with."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.device import DeviceArray, Like, followed, rows_of
from lwcs.foundation.rows import frozen
from lwcs.foundation.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.foundation.types import FloatArray, Rows


class Following:
    """Points and weights that follow X, beside `rows` and `omega`; arrays cannot be changed."""

    points: Any
    weights: Any
    details: Mapping[str, Any]

    def __post_init__(self) -> None:
        own = vars(self)
        if isinstance(self.points, DeviceArray):
            own["points"] = self.points.tensor
        like = Like.of(self.points)
        if like is not None and isinstance(self.weights, np.ndarray):
            # Kept on the host as well, where most of what is asked of weights is computed.
            own["omega"] = frozen(self.weights)
            own["weights"] = like.wrap(self.weights)
        for name, value in list(own.items()):
            if isinstance(value, np.ndarray) or is_sparse(value):
                own[name] = frozen(value)
        own["details"] = dict(self.details)

    @cached_property
    def rows(self) -> Rows:
        """The points as they are computed with: a NumPy, CSR or `DeviceArray`."""
        return self.points if Like.of(self.points) is None else rows_of(self.points)

    @cached_property
    def omega(self) -> FloatArray:
        """The weights as a NumPy array."""
        if isinstance(self.weights, np.ndarray):
            return self.weights
        return np.asarray(rows_of(self.weights), dtype=np.float64)

    def like_points(self, rows: Rows) -> Any:
        """Rows in the library and on the device of the points."""
        return followed(rows, Like.of(self.points))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived."""
        own: Any = self
        return {each.name: getattr(self, each.name) for each in fields(own)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # Arrays come writeable out of a pickle.
        vars(self).update(state)
        self.__post_init__()
