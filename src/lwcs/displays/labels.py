"""Words and numbers on figures: names from the data, and ticks of axes that do not collide."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.numerals import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST = 28
"""Longer names are cut."""
_MOST_TICKS = 6
# No smaller part of the range of an axis between two labels.
_LEAST_GAP = 0.13
_REPLACEMENT = "□"


def name_text(name: object, longest: int = LONGEST) -> str:
    """A name from the data as matplotlib shows it: as it is, and never as mathematics.

    Names that are too long lose their middle. Characters that the font does not have, such as
    emoji, become an empty box.
    """
    text = re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in str(name))).strip()
    text = shortened(text, longest)
    known = _characters(_families())
    shown = "".join(c if ord(c) in known or c == " " else _REPLACEMENT for c in text)
    return shown.replace("$", r"\$")


def _families() -> tuple[str, ...]:
    import matplotlib as mpl

    return tuple(mpl.rcParams["font.family"])


@lru_cache(maxsize=8)
def _characters(families: tuple[str, ...]) -> frozenset[int]:
    """All characters that the fonts of these families have."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = (get_font(findfont(FontProperties(family=[family]))) for family in families)
    return frozenset(code for font in fonts for code in font.get_charmap())


def percent_tick(value: float) -> str:
    """A part as a percentage, with as few characters as it takes."""
    return f"{100.0 * value:.3g} %" if value < 10.0 else f"{100.0 * value:,.0f} %"


def number_tick(value: float, digits: int = 3) -> str:
    """A number with as few characters as it takes."""
    if value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e7:
        text = f"{value:,.0f}" if abs(value) >= 10.0**digits else f"{value:.{digits}g}"
    else:
        text = f"{value:.{digits - 1}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return text.replace("-", "−") if value < 0.0 else text


def number_ticks(axis: Any) -> None:
    """Label a linear axis with numbers, with as many digits as tell its ticks apart."""
    from matplotlib.ticker import FuncFormatter

    class Numbers(FuncFormatter):
        def format_ticks(self, values: Any) -> list[str]:
            for digits in range(3, 12):
                shown = [number_tick(value, digits) for value in values]
                if len(set(shown)) == len(shown):
                    break
            return shown

    axis.set_major_formatter(Numbers(lambda value, _: number_tick(value)))


def log_ticks(axis: Any, text: Callable[[float], str]) -> None:
    """Label a logarithmic axis with round numbers, at most six of them.

    It looks at the present range of the axis, so call it once that is known.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low)
    inside = {
        subs: _count_between(low, high, subs) for subs in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7))
    }
    fitting = [subs for subs, count in inside.items() if 2 <= count <= _MOST_TICKS]
    if decades > _MOST_TICKS - 1:
        axis.set_major_locator(LogLocator(numticks=_MOST_TICKS))
    elif fitting:
        axis.set_major_locator(LogLocator(subs=fitting[-1], numticks=99))
    else:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())


def _count_between(low: float, high: float, subs: Sequence[int]) -> int:
    """How many numbers sub · 10ⁿ are in a range."""
    powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.outer(10.0**powers, subs)
    return int(((ticks >= low) & (ticks <= high)).sum())


def thinned(values: Sequence[float]) -> list[float]:
    """Values that can be labelled on a logarithmic axis without touching, with both ends."""
    if len(values) < 2:
        return list(values)
    places = np.log(np.asarray(values, dtype=np.float64))
    gap = _LEAST_GAP * (places[-1] - places[0])
    kept = [len(values) - 1]
    for each in range(len(values) - 2, -1, -1):
        if places[kept[-1]] - places[each] >= gap:
            kept.append(each)
    kept[-1] = 0
    return [values[each] for each in reversed(kept)]
