"""Figures, with the Display API of scikit-learn."""

from __future__ import annotations

from lwcs.plotting.cluster_map import ClusterMapDisplay
from lwcs.plotting.cluster_profiles import ProfileDisplay, SilhouetteDisplay
from lwcs.plotting.coreset_draws import CoresetDisplay
from lwcs.plotting.curves import CompareDisplay, ElbowDisplay

__all__ = [
    "ClusterMapDisplay",
    "CompareDisplay",
    "CoresetDisplay",
    "ElbowDisplay",
    "ProfileDisplay",
    "SilhouetteDisplay",
]
