"""Colours of the report, for a light and for a dark page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lwcs.describing.palette import cluster_colours, oklch

_HEAT_STEPS = 33


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours that figures have on one kind of page; the style sheet has those of the text."""

    text: str
    line: str
    grid: str
    bar: str
    faint: str
    """Points of other clusters, while one is shown alone."""
    clusters: list[str]
    heat: list[str]
    """From far below the mean to far above it."""

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def themes(k: int) -> dict[str, Theme]:
    """The colours of both pages, for k clusters."""
    return {
        "light": Theme(
            "#3f4650", "#b9bfc7", "#e8eaed", "#3b6ea5", "#c9ced6",
            cluster_colours(k), _heat(0.975, 0.50),
        ),
        "dark": Theme(
            "#c3c9d1", "#5b636e", "#2b3138", "#7aa7d9", "#4a515b",
            cluster_colours(k, dark=True), _heat(0.27, 0.72),
        ),
    }  # fmt: skip


def _heat(middle: float, end: float) -> list[str]:
    """A diverging scale: blue below the mean, the colour of the page at it, red above."""
    half = _HEAT_STEPS // 2
    parts = [(j - half) / half for j in range(_HEAT_STEPS)]
    return [
        oklch(middle + (end - middle) * abs(t), 0.17 * abs(t), 255.0 if t < 0.0 else 30.0)
        for t in parts
    ]
