"""The pictures of the documentation: `make screenshots` writes all of them to docs/_static.

    python docs/screenshots.py              all pictures, also those of docs/guide/figures.md
    python docs/screenshots.py home-dark.svg home.png

The figure of the home page is drawn from results that are stored in docs/results. Pictures of the
report need a browser (Chromium, through Playwright). Figures in docs/results are made by the
commands that docs/results/index.md names, those of the gallery by `make docs`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from guide_pictures import guide_figure
from PIL import Image
from sampling_picture import sampling

import lwcs

HERE = Path(__file__).parent
STATIC = HERE / "_static"


@dataclass(frozen=True)
class Look:
    """Colours of a picture: of the text, the grid, lwcs, the others."""

    text: str
    grid: str
    own: str
    others: tuple[str, str, str, str]
    background: str = "none"


# Of the palette of Okabe and Ito; brighter on a dark page. Each has a contrast of 4.5 or more.
LIGHT = Look("#222832", "#d8dce1", "#0072B2", ("#555555", "#A34700", "#9A4575", "#00704F"))
DARK = Look("#ced6dd", "#3d444d", "#56B4E9", ("#b0b0b0", "#F0945B", "#E3A5C9", "#3BC69E"))


def home(look: Look) -> Callable[[Path], None]:
    """Error against time on KDD, k = 100, by `make paper`."""

    def draw(path: Path) -> None:
        cells = lwcs.load(HERE / "results" / "paper" / "KDD.parquet").cells("KDD", 100)
        found: dict[tuple[str, int], Any] = {}
        for cell in cells:
            found.setdefault((cell.key.method, cell.key.polish), []).append(cell)
        uniform, minibatch, faiss, full = look.others
        style = {
            "font.size": 12,
            "axes.facecolor": "none",
            "text.color": look.text,
            "axes.labelcolor": look.text,
            "axes.edgecolor": look.grid,
            "xtick.color": look.text,
            "ytick.color": look.text,
            "svg.hashsalt": "lwcs",
        }
        with mpl.rc_context(style):
            figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
            axes.set(xscale="log", yscale="log", xlim=(0.006, 16), ylim=(1, 700))
            for method, colour, marker in (
                ("uniform", uniform, "s"),
                ("lightweight", look.own, "o"),
            ):
                line = found[method, 0]
                x, y = [c.seconds for c in line], [100 * c.error for c in line]
                low = [100 * min(c.errors) for c in line]
                high = [100 * max(c.errors) for c in line]
                axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
                axes.plot(x, y, color=colour, marker=marker, linewidth=2.2, markersize=6)
            for method, colour, marker in (("minibatch", minibatch, "P"), ("faiss", faiss, "X")):
                [cell] = found[method, 0]
                axes.plot(cell.seconds, 100 * cell.error, color=colour, marker=marker, markersize=9)
            [reference] = found["full-sklearn", 0]
            axes.axvline(reference.seconds, color=full, linewidth=1.6, linestyle=":")
            for x, y, words, colour, align in (
                (0.022, 420, "uniform sample", uniform, "left"),
                (0.0105, 7.4, "lwcs", look.own, "left"),
                (0.17, 118, "MiniBatchKMeans", minibatch, "left"),
                (0.26, 58, "faiss", faiss, "left"),
                (6.4, 330, "KMeans\non all rows:\n7.2 s", full, "right"),
            ):
                weight = "bold" if words == "lwcs" else "normal"
                axes.text(x, y, words, color=colour, ha=align, va="center", weight=weight)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
            axes.set_xlabel("time to cluster 145,751 rows of 74 columns into 100 clusters")
            axes.set_ylabel("cost above that of KMeans")
            axes.grid(which="major", color=look.grid, linewidth=0.7)
            axes.tick_params(which="both", length=0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_axisbelow(True)
            figure.savefig(
                path, dpi=200, facecolor=look.background,
                metadata={"Date": None} if path.suffix == ".svg" else None,
            )  # fmt: skip
            plt.close(figure)

    return draw


def report(scheme: str) -> Callable[[Path], None]:
    """The clusters and the map of the report on the customers of docs/start.md."""

    def take(path: Path) -> None:
        from playwright.sync_api import sync_playwright

        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            customers().to_csv(Path(folder) / "customers.csv", index=False)
            subprocess.run([sys.executable, "-m", *command()], cwd=folder, check=True)
            made = Path(folder) / "report.html"
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
                args=["--no-sandbox", "--enable-unsafe-swiftshader"],
            )
            page = browser.new_page(
                viewport={"width": 1000, "height": 900},
                color_scheme=scheme,
                device_scale_factor=1.5,
            )
            page.goto(made.as_uri())
            page.wait_for_timeout(2_000)
            first, last = (
                page.locator(f"section[aria-labelledby={name}]").bounding_box()
                for name in ("clusters", "map")
            )
            top, bottom = first["y"] - 24, last["y"] + last["height"] + 24
            clip = {"x": 0, "y": top, "width": 1000, "height": bottom - top}
            page.screenshot(path=path, clip=clip, full_page=True)
            browser.close()
        # A palette takes a third of the space, and shows no difference; this kind of it has the
        # colours of small dots too.
        kind = Image.Quantize.MAXCOVERAGE
        whole = Image.open(path).convert("RGB")
        whole.quantize(256, method=kind, dither=Image.Dither.NONE).save(path)

    return take


def command() -> list[str]:
    """The command of docs/start.md that writes a report."""
    text = (HERE / "start.md").read_text("utf-8")
    [line] = re.findall(r"^\$ (lwcs fit .* --report report\.html)$", text, re.MULTILINE)
    return shlex.split(line)


def customers() -> pd.DataFrame:
    """The table of docs/start.md, made by the lines that are shown there."""
    [lines] = re.findall(
        r"^```python\n(>>> import numpy as np, pandas as pd\n.*?)```",
        (HERE / "start.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    prompts = [line for line in lines.split("\n") if line[:4] in (">>> ", "... ")]
    code = "\n".join(line[4:] for line in prompts if "to_csv" not in line)
    variables: dict[str, Any] = {}
    exec(code, variables)
    return variables["customers"]


PICTURES: dict[str, Callable[[Path], None]] = {
    "home-light.svg": home(LIGHT),
    "home-dark.svg": home(DARK),
    "home.png": home(Look(LIGHT.text, LIGHT.grid, LIGHT.own, LIGHT.others, background="white")),
    "sampling-light.svg": sampling(dark=False),
    "sampling-dark.svg": sampling(dark=True),
    "report-light.png": report("light"),
    "report-dark.png": report("dark"),
    "figure-coreset.png": guide_figure("coreset.png"),
    "figure-map.png": guide_figure("map.png"),
    "figure-profile.png": guide_figure("profile.png"),
    "figure-silhouette.png": guide_figure("silhouette.png"),
    "figure-elbow.png": guide_figure("elbow.png"),
    "figure-compare.png": guide_figure("compare.png"),
}


def main(names: list[str]) -> None:
    """Make the pictures with these names, or all."""
    unknown = sorted(set(names) - set(PICTURES))
    if unknown:
        raise SystemExit(f"no picture is named {unknown[0]!r}; choose from {', '.join(PICTURES)}")
    for name in names or PICTURES:
        PICTURES[name](STATIC / name)
        print(f"wrote docs/_static/{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
