"""Weighted points of every kind that seeding and the local search treat differently."""

from __future__ import annotations

import pytest
import scipy.sparse as sp

from lwcs.geometry import Geometry
from lwcs.solvers.points import Points


def portable(X, w):
    return Points.of(X, w)


def native(X, w):
    return Points.of(X, w, Geometry(kernel="native"))


def sparse(X, w):
    return Points.of(sp.csr_array(X), w)


MAKE = pytest.mark.parametrize("make", [portable, native, sparse])
DENSE = pytest.mark.parametrize("make", [portable, native])
