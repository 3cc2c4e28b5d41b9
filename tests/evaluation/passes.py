"""The passes over all rows that something makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from lwcs.runtime import journal


def passes_of(do: Callable[[], object]) -> list[str]:
    """Every pass by its name, in order and as often as it is made, whichever journal has it."""
    seen = []

    class Noted(journal.RunningStage):
        __slots__ = ()

        def __init__(self, name: str, total: Any, kind: Any, note: str, display: Any) -> None:
            super().__init__(name, total, kind, note, display)
            seen.extend([name] * self.passes)

    with patch.object(journal, "RunningStage", Noted):
        do()
    return seen
