"""How far an answer can be off: what theory says, and what was measured."""

from __future__ import annotations

from lwcs.statistics import theory

__all__ = ["theory"]
