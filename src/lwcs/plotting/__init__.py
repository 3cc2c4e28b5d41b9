"""Figures, with the Display API of scikit-learn."""

from __future__ import annotations

from lwcs.plotting.cluster_map import ClusterMapDisplay
from lwcs.plotting.compare import CompareDisplay
from lwcs.plotting.coreset import CoresetDisplay
from lwcs.plotting.elbow import ElbowDisplay
from lwcs.plotting.profile import ProfileDisplay
from lwcs.plotting.silhouette import SilhouetteDisplay

__all__ = [
    "ClusterMapDisplay",
    "CompareDisplay",
    "CoresetDisplay",
    "ElbowDisplay",
    "ProfileDisplay",
    "SilhouetteDisplay",
]
