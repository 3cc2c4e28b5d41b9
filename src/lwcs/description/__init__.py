"""Facts about the clusters of a model, for figures, the report and the command line."""

from __future__ import annotations

from lwcs.description.description import Description, Difference, describe
from lwcs.description.projection import Projection

__all__ = ["Description", "Difference", "Projection", "describe"]
