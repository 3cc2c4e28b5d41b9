"""Figures, with the Display API of scikit-learn."""

from __future__ import annotations

from lwcs.displays.compare import CompareDisplay
from lwcs.displays.elbow import ElbowDisplay

__all__ = ["CompareDisplay", "ElbowDisplay"]
