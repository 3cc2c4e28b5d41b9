"""The order of the gallery: what most readers want to see comes first."""

from __future__ import annotations

ORDER = (
    "plot_heavy_tails.py",
    "plot_colour_quantisation.py",
    "plot_choosing_k.py",
    "plot_stream.py",
    "plot_vector_index.py",
    "plot_topics.py",
    "plot_spoken_digits.py",
    "plot_drift.py",
    "plot_billion_rows.py",
)


class ReadingOrder:
    """Key by which sphinx-gallery sorts the examples of a folder; it makes one per folder."""

    def __init__(self, _folder: str) -> None:
        pass

    def __call__(self, name: str) -> int:
        """The place of an example."""
        return ORDER.index(name)
