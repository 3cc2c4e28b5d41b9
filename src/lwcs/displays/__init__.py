"""Every figure, in scikit-learn's Display style."""

from __future__ import annotations

from lwcs.displays.compare import CompareDisplay

__all__ = ["CompareDisplay"]
