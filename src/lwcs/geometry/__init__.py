"""How the rows of one data set are measured: the only place that asks "sparse?" or "squared?".

A `Geometry` is made once per fit: a divergence, a scale, the mean that rows are smoothed towards,
a kernel and a precision. It alone converts between the coordinates of the data and its own: rows
become `Measured`, centers become `Centers`, and everything that solvers, passes and samplers do
with rows is an operation on these two.
"""

from __future__ import annotations

from lwcs.geometry.base import Measured
from lwcs.geometry.centers import Centers
from lwcs.geometry.geometry import Geometry

__all__ = ["Centers", "Geometry", "Measured"]
