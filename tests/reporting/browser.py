"""A headless browser with a report open in it, and what it has complained about."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Of a graphics driver in software, about its own speed.
NOT_OURS = "GL Driver Message"


def installed() -> str | None:
    """The path of a browser on this machine; None for the one that Playwright has downloaded."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Opened:
    """A page, what it has asked the network for, and what it has logged."""

    page: Any
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def shown_points(self) -> int:
        """Number of points on the map in the colours of their clusters."""
        return int(
            self.page.evaluate(
                """() => {
                  const plot = Bokeh.documents.map((doc) => doc.roots()[0])
                    .find((root) => root.name === "map");
                  const filter = plot.document.get_model_by_name("alone");
                  const source = plot.document.get_model_by_name("points");
                  return filter.indices === null ? source.get_length() : filter.indices.length;
                }"""
            )
        )

    def column(self, number: int) -> list[float]:
        """The values of a column of the table, from top to bottom."""
        return list(
            self.page.eval_on_selector_all(
                f"#table tbody tr > :nth-child({number + 1})",
                "cells => cells.map((cell) => Number(cell.dataset.value))",
            )
        )


# A browser that draws by software says that it has a graphics processor.
PRETENDING = """
  const own = { context: HTMLCanvasElement.prototype.getContext };
  HTMLCanvasElement.prototype.getContext = function (kind, asked = {}) {
    return own.context.call(this, kind, { ...asked, failIfMajorPerformanceCaveat: false });
  };
  own.parameter = WebGLRenderingContext.prototype.getParameter;
  WebGLRenderingContext.prototype.getParameter = function (name) {
    return name === 0x9246 || name === 0x1F01 ? "fast" : own.parameter.call(this, name);
  };
"""


@contextmanager
def opened(browser: Any, path: Path, *, graphics: bool = False, **options: Any) -> Iterator[Opened]:
    """Open a report, wait until its figures are drawn, and close it again.

    With `graphics`, the page is told that there is a graphics processor.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    found = Opened(context.new_page())

    def log(message: Any) -> None:
        if message.type in ("error", "warning") and NOT_OURS not in message.text:
            found.problems.append(message.text)

    def ask(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            found.requests.append(request.url)

    if graphics:
        found.page.add_init_script(PRETENDING)
    found.page.on("console", log)
    found.page.on("pageerror", lambda error: found.problems.append(str(error)))
    found.page.on("request", ask)
    try:
        found.page.goto(path.as_uri())
        found.page.wait_for_selector("html[data-ready]")
        yield found
    finally:
        context.close()
