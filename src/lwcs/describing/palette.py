"""Colours of clusters: a cluster has the same one in figures and in the report."""

from __future__ import annotations

from math import cos, pi, sin

# The palette of Okabe and Ito, which is safe for all kinds of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)

# Yellow and black are left out: one is lost on white, the other looks like text.
DISTINCT = (BLUE, ORANGE, GREEN, RED, SKY, PINK, "#12239E", "#8F3A1F", "#BCCFBC", "#4A1208")
"""Colours of up to ten clusters, which stay apart for all kinds of colour vision."""
ON_DARK = (
    "#437AAF", "#EEB831", "#22A96B", "#F06319", "#62BAF7", "#D786B3", "#9D7BFF", "#B44600",
    "#BCCFBC", "#7F6868",
)  # fmt: skip
"""The same ten on a dark page: as near to those as a contrast of 3 with the page allows."""
# Multiples of these two cover the plane of hues and lightnesses evenly, however many there are.
_HUE_STEP, _LIGHTNESS_STEP = 0.569840290998, 0.754877666247
_FIRST_HUE, _CHROMA = 250.0, 0.13
# Ends of the lightness in OKLCH: on a light page, and on a dark one.
_LIGHT, _DARK = (0.42, 0.67), (0.60, 0.84)


def cluster_colours(n_clusters: int, *, dark: bool = False) -> list[str]:
    """One colour per cluster: ten that are told apart, or a hue and a lightness for each.

    Clusters with neighbouring numbers look different. A dark page has lighter colours.
    """
    distinct, (low, high) = (ON_DARK, _DARK) if dark else (DISTINCT, _LIGHT)
    if n_clusters <= len(distinct):
        return list(distinct[:n_clusters])
    return [
        oklch(
            low + (high - low) * (cluster * _LIGHTNESS_STEP % 1.0),
            _CHROMA,
            _FIRST_HUE + 360.0 * (cluster * _HUE_STEP % 1.0),
        )
        for cluster in range(n_clusters)
    ]


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """A colour of OKLCH in hexadecimal sRGB (Björn Ottosson, 2020), clipped to its range."""
    a, b = chroma * cos(hue * pi / 180.0), chroma * sin(hue * pi / 180.0)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255.0 * _gamma(min(max(one, 0.0), 1.0))):02x}" for one in linear)


def _gamma(linear: float) -> float:
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1.0 / 2.4) - 0.055
