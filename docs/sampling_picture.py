"""The picture of docs/how_it_works.md: what a uniform sample and a lightweight coreset draw.

python docs/sampling_picture.py     writes docs/_static/sampling-light.svg and sampling-dark.svg
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import lwcs

STATIC = Path(__file__).parent / "_static"
DRAWS = 100


def rows() -> np.ndarray:
    """20,000 rows around the origin, and three far groups of 20 rows each."""
    rng = np.random.default_rng(0)
    far = np.array([[11.0, 7.0], [-12.0, 5.0], [9.0, -8.0]])
    groups = [rng.normal(place, 0.6, (20, 2)) for place in far]
    return np.vstack([rng.normal(0.0, 2.0, (20_000, 2)), *groups])


def sampling(dark: bool) -> Callable[[Path], None]:
    """Draw both samples, for a light or a dark page."""
    text, cloud, drawn = (
        ("#ced6dd", "#5b6470", "#56B4E9") if dark else ("#222832", "#c3c9d0", "#0072B2")
    )

    def draw(path: Path) -> None:
        X = rows()
        style = {"font.size": 11, "text.color": text, "svg.hashsalt": "lwcs"}
        with mpl.rc_context(style):
            figure, axes = plt.subplots(1, 2, figsize=(8.0, 2.9), layout="constrained")
            for panel, method, title in (
                (axes[0], "uniform", f"{DRAWS} uniform draws"),
                (axes[1], "lightweight", f"{DRAWS} lightweight draws"),
            ):
                coreset = lwcs.build(X, DRAWS, method=method, random_state=1)
                found = int(np.sum(coreset.indices >= 20_000))
                panel.scatter(*X.T, s=2, color=cloud, linewidths=0, rasterized=True)
                areas = np.maximum(coreset.weights / 6, 9)
                panel.scatter(*coreset.points.T, s=areas, color=drawn, alpha=0.75, linewidths=0)
                panel.set_title(f"{title}: {found} of the far rows")
                panel.set(xlim=(-16, 16), ylim=(-10, 9), aspect="equal")
                panel.axis("off")
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=200, transparent=True, metadata=metadata)
            plt.close(figure)

    return draw


if __name__ == "__main__":
    sampling(dark=False)(STATIC / "sampling-light.svg")
    sampling(dark=True)(STATIC / "sampling-dark.svg")
