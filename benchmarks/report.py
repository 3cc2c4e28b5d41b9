"""`python -m benchmarks.report [--markdown FILE]`: sizes of reports, and how fast they respond.

Reports are opened in a headless Chromium, that of the system or else the one that Playwright has
downloaded. It has no graphics processor, so that the browser draws all points by itself: the
slowest case. A time is that from a press of a button until the page has drawn what follows; on a
large map, that is a tenth of the points, and the others follow half a second later.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import lwcs
from benchmarks.measure import machine

ROUNDS = 5
CASES = {"5 clusters, 2,000 points": (5, 2_000), "500 clusters, 100,000 points": (500, 120_000)}
COLUMNS = 12
ACTIONS = {
    "zoom in": "document.querySelector('#in').click()",
    "first view": "document.querySelector('#reset').click()",
    "one cluster alone": "choose('3')",
    "all clusters again": "document.querySelector('#all').click()",
    "sort": "document.querySelectorAll('#table thead button')[2].click()",
}
TIMED = """async (action) => {
  const choose = (value) => {
    const select = document.querySelector("#alone");
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };
  const drawn = async () => {
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done, 0));
  };
  await drawn();
  const start = performance.now();
  eval(action);
  await drawn();
  return performance.now() - start;
}"""


def fitted(k: int, size: int) -> lwcs.CoresetKMeans:
    """Clusters of a coreset of 400,000 rows."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, 10.0, (k, COLUMNS))
    X = means[rng.integers(0, k, 400_000)] + rng.normal(size=(400_000, COLUMNS))
    coreset = lwcs.build(X, size, random_state=0)
    return lwcs.CoresetKMeans(k, random_state=0, max_iter=20).fit(coreset)


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield made
        made.close()


def measured(own: Any, k: int, size: int, folder: Path) -> list[str]:
    """The cells of a line: megabytes, seconds to write and to load, milliseconds to respond."""
    model, path = fitted(k, size), folder / f"{k}.html"
    start = time.perf_counter()
    lwcs.report(model, path)
    writing = time.perf_counter() - start
    page = own.new_page(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    start = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    loading = time.perf_counter() - start
    best = dict.fromkeys(ACTIONS, float("inf"))
    for _ in range(ROUNDS):
        for name, action in ACTIONS.items():
            page.wait_for_timeout(1_500)
            best[name] = min(best[name], page.evaluate(TIMED, action))
    page.close()
    megabytes = path.stat().st_size / 1e6
    shown = (f"{each:.0f} ms" for each in best.values())
    return [f"{megabytes:.1f} MB", f"{writing:.1f} s", f"{loading:.1f} s", *shown]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    options = parser.parse_args()
    headings = ("report", "file", "to write", "to open", *ACTIONS)
    lines = [f"| {' | '.join(headings)} |", f"|---{'|---:' * (len(headings) - 1)}|"]
    print(machine(), *lines, sep="\n")
    with tempfile.TemporaryDirectory() as folder, browser() as own:
        for name, (k, size) in CASES.items():
            cells = measured(own, k, size, Path(folder))
            lines.append(f"| {' | '.join([name, *cells])} |")
            print(lines[-1], flush=True)
    if options.markdown:
        about = (__doc__ or "").partition("\n\n")[2].strip()
        command = "python -m benchmarks.report"
        text = ["# Reports in a browser", f"{machine()}, by `{command}`.", about, "\n".join(lines)]
        options.markdown.write_text("\n\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
