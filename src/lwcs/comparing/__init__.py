"""The paper's experiment (section 8) on any data: time and error of each method."""

from __future__ import annotations

from lwcs.comparing.result import CompareResult
from lwcs.comparing.runner import compare

__all__ = ["CompareResult", "compare"]
