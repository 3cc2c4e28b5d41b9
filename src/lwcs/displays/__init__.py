"""Figures, with the Display API of scikit-learn."""

from __future__ import annotations

from lwcs.displays.cluster_map import ClusterMapDisplay
from lwcs.displays.compare import CompareDisplay
from lwcs.displays.coreset import CoresetDisplay
from lwcs.displays.elbow import ElbowDisplay
from lwcs.displays.profile import ProfileDisplay
from lwcs.displays.silhouette import SilhouetteDisplay

__all__ = [
    "ClusterMapDisplay",
    "CompareDisplay",
    "CoresetDisplay",
    "ElbowDisplay",
    "ProfileDisplay",
    "SilhouetteDisplay",
]
