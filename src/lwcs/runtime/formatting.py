"""Numbers, percentages and names as text, and HTML for notebooks: one style for all output.

The report and figures are typeset (× 10⁹, −, a no-break space before %); sentences and terminals
have plain characters, which can be copied and searched for.
"""

from __future__ import annotations

import re
from html import escape
from math import floor, isfinite, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "−"
_PERCENT = "\N{NO-BREAK SPACE}%"
# Up to here, numbers are printed with all of their digits before the point.
_PLAIN = 1e7
# Units of time, each used from the value that is rounded to one of it.
_UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
_LEAST = 0.9995
# Between the columns of a table.
_BETWEEN = "  "


def number(value: float, digits: int = 4) -> str:
    """A number with a few significant digits: 1,234, 0.01234 or 1.234 × 10⁹."""
    if not isfinite(value):
        return "not known"
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0.0:
        return "0"
    if 1e-4 <= abs(rounded) < _PLAIN:
        before = len(f"{int(abs(rounded))}") if abs(rounded) >= 1.0 else 0
        text = f"{value:,.0f}" if before >= digits else f"{rounded:,.{digits}g}"
    else:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}{_power(int(exponent))}"
    return _with_minus(text)


def plain_number(value: float, digits: int = 4) -> str:
    """A number as `number` gives it, in characters that can be copied: 1,234, -0.5 or 1.234e+09."""
    text = number(value, digits)
    return f"{value:.{digits}g}" if "×" in text else text.replace(_MINUS, "-")


def aligned(values: Sequence[float], digits: int = 3) -> list[str]:
    """The numbers of a column of a table, all with as many decimals as the median needs."""
    some = sorted(abs(value) for value in values if value and isfinite(value))
    if not some or some[0] < 1e-3 or some[-1] >= _PLAIN:
        return [number(value, digits) for value in values]
    decimals = min(max(digits - 1 - floor(log10(some[len(some) // 2])), 0), 6)
    return [_decimals(value, decimals) for value in values]


def _decimals(value: float, decimals: int) -> str:
    """A number with this many decimals; with two digits if they would round it to 0."""
    if not isfinite(value) or (value and abs(value) < 0.5 * 10.0**-decimals):
        return number(value, 2)
    return _with_minus(f"{value:,.{decimals}f}")


def _with_minus(text: str) -> str:
    return text.replace("-", _MINUS)


def percent(part: float) -> str:
    """A fraction as a typeset percentage: 12.3 %, 0.04 %; from 10 % on with one decimal."""
    if not isfinite(part):
        return "not known"
    value = 100.0 * part
    if value >= 9.995 or value == 0.0:
        return f"{value:.1f}{_PERCENT}"
    if value >= 0.1:
        return f"{value:.2f}{_PERCENT}"
    return f"< 0.001{_PERCENT}" if value < 0.001 else f"{value:.2g}{_PERCENT}"


def plain_percent(part: float, digits: int = 3) -> str:
    """A fraction as a percentage with a few significant digits, for sentences: 12.3 %, 1,234 %."""
    large = abs(part) >= 10.0 ** (digits - 2)
    return f"{100.0 * part:,.0f} %" if large else f"{100.0 * part:.{digits}g} %"


def interval(low: float, high: float) -> str:
    """The ends of an interval of fractions, as percentages."""
    one, other = percent(low), percent(high)
    return f"{one.removesuffix(_PERCENT)} – {other}"


def signed(value: float, decimals: int = 2) -> str:
    """A number with its sign, for differences; 0 has none."""
    if abs(value) >= 100.0 or not isfinite(value):
        return f"+{number(value, 3)}" if value > 0.0 else number(value, 3)
    text = f"{value:+.{decimals}f}"
    return _with_minus(text) if float(text) else "0"


def typeset(text: str) -> str:
    """Text with numbers such as 1.2e+09 as 1.2 × 10⁹, and no line break between number and %."""
    text = re.sub(r"(?<=\d)e([+-]\d+)\b", lambda found: _power(int(found[1])), text)
    return re.sub(r"(?<!\S)-(?=\d)", _MINUS, text).replace(" %", _PERCENT)


def _power(exponent: int) -> str:
    return f" × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def seconds(value: float) -> str:
    """A time with its unit: 20 µs, 1.5 ms, 3 s, 2.5 min or 12 h."""
    if value == 0.0:
        return "0 s"
    unit, length = next((each for each in _UNITS if value >= _LEAST * each[1]), _UNITS[-1])
    return f"{number(value / length, 3)} {unit}"


def shortened(name: str, most: int) -> str:
    """A name cut to `most` characters in its middle, since it is often the ends that differ."""
    if len(name) <= most:
        return name
    behind = (most - 1) // 3
    return f"{name[: most - 1 - behind]}…{name[len(name) - behind :]}"


def table(
    headings: Sequence[object], lines: Iterable[Sequence[object]], *, bold: int | None = None
) -> str:
    """An HTML table with one row per line; the line with the number `bold` is emphasised."""
    head = "".join(f"<th>{_text(name)}</th>" for name in headings)
    rows = []
    for number, line in enumerate(lines):
        start, end = ("<td><b>", "</b></td>") if number == bold else ("<td>", "</td>")
        rows.append(f"<tr>{''.join(f'{start}{_text(cell)}{end}' for cell in line)}</tr>")
    body = "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """An HTML table of names and values."""
    rows = (
        f'<tr><th scope="row" style="text-align: left">{_text(name)}</th>'
        f'<td style="text-align: left">{_text(value)}</td></tr>'
        for name, value in pairs
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def paragraphs(lines: Iterable[object]) -> str:
    """HTML with one paragraph per line."""
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def _text(value: object) -> str:
    return escape(str(value))


def plain_table(
    lines: Sequence[Sequence[str]], *, left: Sequence[int] = (0,), width: int | None = None
) -> list[str]:
    """The lines of a table as text; the columns `left` are aligned to the left.

    One that is wider than `width` becomes several, each with the first column, so that a narrow
    terminal breaks no line.
    """
    sizes = [max(map(len, column)) for column in zip(*lines, strict=True)]
    parts = [[0]]
    for j in range(1, len(sizes)):
        room = sum(sizes[each] + len(_BETWEEN) for each in parts[-1]) + sizes[j]
        if width is not None and room > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(j)
    texts: list[str] = []
    for part in parts:
        texts += [""] if texts else []
        for line in lines:
            cells = (
                line[j].ljust(sizes[j]) if j in left else line[j].rjust(sizes[j]) for j in part
            )
            texts.append(_BETWEEN.join(cells).rstrip())
    return texts
