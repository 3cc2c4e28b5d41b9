"""Colours of the report, for a light and for a dark page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lwcs.description.projection import cluster_colours, oklch

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


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def bokeh() -> Any:
    """Import bokeh, or say how to install it."""
    try:
        import bokeh.plotting
    except ImportError as error:
        raise ImportError(
            "the report needs Bokeh, which is not installed; run pip install 'lwcs[plot]'"
        ) from error
    return bokeh


def scripts() -> list[str]:
    """The scripts of Bokeh that a page needs: the library, and drawing by WebGL."""
    bokeh()
    from bokeh.resources import Resources

    own = Resources(mode="inline", components=["bokeh", "bokeh-gl"], log_level="error")
    return [each for each in own.js_raw if not each.startswith("Bokeh.set_log_level")]


def plain_text(text: str) -> Any:
    """Text as it is: between dollar signs, Bokeh would take it for a formula."""
    from bokeh.models import PlainText

    return PlainText(text=text)


# Labels of a linear axis: as few decimals as the ticks need, and powers of ten as in the text.
_TICK = """
  if (tick === 0) return "0";
  const largest = Math.max(...ticks.map(Math.abs));
  const steps = ticks.slice(1).map((each, i) => Math.abs(each - ticks[i])).filter((by) => by > 0);
  const step = steps.length ? Math.min(...steps) : largest;
  const power = Math.floor(Math.log10(largest) + 1e-9);
  const far = power >= 6 || power < -3;
  const unit = far ? Math.pow(10, power) || 1 : 1;
  const decimals = Math.min(Math.max(-Math.floor(Math.log10(step / unit) + 1e-9), 0), 12);
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const raised = [...String(power)].map((each) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(each)]);
  const text = (Math.abs(tick) / unit).toLocaleString("en", digits);
  return (tick < 0 ? "−" : "") + text + (far ? ` × 10${raised.join("")}` : "");
"""


def new_figure(name: str, height: int, **options: Any) -> Any:
    """An empty figure as wide as the page; its colours are set by the page, by light and dark."""
    bokeh()
    from bokeh.models import CustomJSTickFormatter, LinearAxis
    from bokeh.plotting import figure

    made = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        outline_line_color=None,
        min_border=8,
        **{"tools": "", **options},
    )
    for axis in (*made.xaxis, *made.yaxis):
        if isinstance(axis, LinearAxis):
            axis.formatter = CustomJSTickFormatter(code=_TICK)  # type: ignore[assignment]
    made.axis.axis_label_text_font = FONT
    made.axis.major_label_text_font = FONT
    made.axis.axis_label_text_font_style = "normal"
    made.axis.axis_label_text_font_size = "13px"
    made.axis.major_label_text_font_size = "12px"
    made.axis.minor_tick_line_color = None
    made.axis.major_tick_in = 0
    made.axis.major_tick_out = 4
    made.grid.grid_line_width = 1
    return made


def as_json(made: Any) -> dict[str, Any]:
    """A figure as JSON that the page shows; arrays are in base64."""
    from bokeh.embed import json_item

    found: dict[str, Any] = json_item(made)  # type: ignore[assignment]
    return found
