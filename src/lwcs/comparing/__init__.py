"""The paper's experiment (section 8) on anybody's data: what a summary costs, how good it is."""

from __future__ import annotations

from lwcs.comparing.result import CompareResult
from lwcs.comparing.runner import compare

__all__ = ["CompareResult", "compare"]
