"""Figures, with the Display API of scikit-learn."""

from __future__ import annotations

from lwcs.displays.compare import CompareDisplay

__all__ = ["CompareDisplay"]
