"""report(): one HTML file about the clusters of a model, which opens offline in any browser.

The page is a Jinja template filled with facts and figures, and Bokeh's script is part of the file.
Bokeh's script with WebGL has 1.5 MB, that of plotly 4.8 MB of the 6 MB that a report may have, and
the difference is needed for 100,000 points with some values each. Tables are HTML: they can be
sorted, printed and read aloud, which a canvas cannot.
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lwcs.description import describe
from lwcs.reporting import facts
from lwcs.reporting.cluster_table import (
    TELLING,
    TYPICAL,
    TYPICAL_CLUSTERS,
    centers_of,
    table_of,
    typical_of,
)
from lwcs.reporting.facts import Origin, quality_sections
from lwcs.reporting.figures import (
    Profiles,
    bokeh,
    histogram_figure,
    of_distances,
    of_sizes,
    profile_figure,
    scripts,
    themes,
)
from lwcs.reporting.map_figure import MOST_COLUMNS, MapPoints, map_figure
from lwcs.reporting.recipe import recipe_of
from lwcs.runtime.formatting import percent
from lwcs.statistics.certificate import Certificate
from lwcs.storage.atomic_write import check_target, explaining, replacing
from lwcs.storage.locations import Access

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.description import Description


__all__ = ["report"]

SHOWN_ROWS = 50
"""Rows of the table that are shown at first; a button shows the others."""
_NAMED = 8
LEGEND = 20
"""With at most this number of clusters, each has a button below the map."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the page, with the digest by which the page's policy allows it."""

    text: str

    @property
    def digest(self) -> str:
        """The digest as it is written in a Content-Security-Policy."""
        return f"'sha256-{base64.b64encode(sha256(self.text.encode()).digest()).decode()}'"


def render(description: Description, certificate: Certificate | None, origin: Origin) -> str:
    """The HTML of the report."""
    from bokeh.embed import json_item
    from jinja2 import Environment, StrictUndefined

    colours = themes(description.k)
    points, profiles = MapPoints.of_description(description), Profiles.of(description)
    sizes, distances = of_sizes(description), of_distances(description)
    light = colours["light"]
    figures = {
        "map": map_figure(description, points, light),
        "profiles": profile_figure(description, profiles, light),
        "sizes": histogram_figure(description, sizes, light),
        "distances": histogram_figure(description, distances, light),
    }
    page_scripts, typed = _scripts(), (origin.command or origin.rewriting) is not None
    # The template escapes all that comes from data, and its filter `tojson` does in JSON.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["with_code"] = _with_code
    # The order of keys matters: Bokeh reads a model before the references to it.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":")}
    return environment.from_string(_asset("page.html")).render(
        title=facts.title_of(description, origin),
        policy=" ".join(script.digest for script in page_scripts),
        scripts=[script.text for script in page_scripts],
        style=_asset("page.css"),
        what=description.called,
        mixture=description.is_mixture,
        headline=facts.headline(description),
        stages=facts.stages(description),
        answers=quality_sections(description, certificate, typed=typed),
        table=table_of(description, colours),
        telling=TELLING,
        shown_rows=SHOWN_ROWS,
        legend=description.k <= LEGEND,
        map_words=_map_words(description, points),
        profile_words=profiles.words(description),
        profiles=profiles,
        profile_cells=profiles.cells(description),
        centers=centers_of(description, profiles),
        typical=typical_of(description),
        typical_words=_typical_words(description),
        sizes=sizes,
        distances=distances,
        drawn=facts.drawn(description, origin),
        recipe=recipe_of(description, origin),
        command=typed,
        timed="the fit" if facts.has_timings(description) else "the coreset",
        versions=facts.versions(),
        figures={name: json_item(figure) for name, figure in figures.items()},
        settings={
            "themes": {name: asdict(theme) for name, theme in colours.items()},
            "view": description.projection.view,
            "shown_rows": SHOWN_ROWS,
            "what": description.called,
        },
    )


def _map_words(description: Description, points: MapPoints) -> list[str]:
    """Sentences on what the map shows, and on what it leaves out."""
    projection, n_columns = description.projection, len(points.columns)
    projected = (
        ", projected onto the two directions in which most of the rows differ most"
        if projection.explained is not None
        else ""
    )
    sentences = [
        f"Each point is a row of the coreset{projected}.",
        "The area of a point is in proportion to the weight that it stands for.",
    ]
    if len(points) < points.of:
        sentences.append(f"Shown are {len(points):,} of {points.of:,} points, chosen at random.")
    if projection.outside > 0.0:
        sentences.append(
            f"{percent(projection.outside)} of the weight is outside of the first view"
            f"{_with_centers(description)}, so that a few rows far away do not squash the picture; "
            "zoom out to see them."
        )
    if n_columns < len(description.names):
        small = ", to keep the file small" if n_columns < MOST_COLUMNS else ""
        sentences.append(
            f"A point tells its values in {n_columns} of the {len(description.names):,} columns, "
            f"those that tell {description.called}s apart best{small}."
        )
    return sentences


def _typical_words(description: Description) -> list[str]:
    """Sentences on which rows are shown as typical."""
    what = description.called
    nearest = "most likely in" if description.is_mixture else "nearest to the center of"
    sentences = [
        f"The {TYPICAL} rows of the coreset that are {nearest} each {what}, with their values in "
        "the columns that tell it apart."
    ]
    if not description.coreset.exact:
        sentences.append("`lwcs exemplars` finds such rows among all, and the farthest ones.")
    if description.k > TYPICAL_CLUSTERS:
        sentences.append(f"Shown are the {TYPICAL_CLUSTERS} largest of {description.k:,} {what}s.")
    return sentences


def _with_centers(description: Description) -> str:
    """The part of a sentence that names clusters with a center outside of the first view."""
    hidden = description.projection.hidden
    if not hidden:
        return ""
    shown = ", ".join(map(str, hidden[:_NAMED]))
    more = f" and {len(hidden) - _NAMED:,} more" if len(hidden) > _NAMED else ""
    s = "s" * (len(hidden) > 1)
    return f", with the center{s} of {description.called}{s} {shown}{more}"


def _with_code(text: str) -> Any:
    """Escape a sentence, with `commands` set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _scripts() -> list[Script]:
    """The scripts of Bokeh and of the page, as text between tags."""
    return [Script(_within_tags(each)) for each in (*scripts(), _asset("page.js"))]


def _within_tags(script: str) -> str:
    """A script without text that would end its tag, and with the line ends that browsers hash."""
    safe = re.sub(r"</(script)", r"<\\/\1", script, flags=re.IGNORECASE)
    return "\n" + safe.replace("\r\n", "\n").replace("<!--", "<\\!--") + "\n"


def _asset(name: str) -> Any:
    return (files("lwcs.reporting") / "page" / name).read_text("utf-8")


def report(
    model: Any,
    path: str | os.PathLike[str],
    coreset: Any = None,
    *,
    certificate: Certificate | None = None,
    title: str | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a report about the clusters of a model: one HTML file that opens in any browser.

    The file has all that it shows and needs no network: how many rows there are and how long the
    fit took, how good the clusters are, a table of the clusters that can be sorted, a map of the
    coreset, profiles of the clusters, and how to get the same result again. It has at most 6 MB,
    for any number of rows. Bokeh is required: ``pip install 'lwcs[plot]'``.

    Parameters
    ----------
    model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
        Fitted model.
    path : str or path
        File to write; also a URI, such as ``s3://bucket/report.html``.
    coreset : Coreset or StreamingCoreset, optional
        Summary of the rows that the clusters are described by; by default the model's own
        `coreset_`. A model that was loaded from a file has none.
    certificate : Certificate, optional
        Result of `lwcs.certify`, which is then part of the report.
    title : str, optional
        Title of the report, such as the name of the data.
    filesystem : pyarrow or fsspec file system, optional
        File system to write to; by default, that of the path or URI.
    storage_options : dict, optional
        Options of fsspec for the file system of a URI, such as ``{"anon": True}``.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 1, (20_000, 4)) for c in (0, 5, 9)])
    >>> model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    >>> lwcs.report(model, "report.html", title="Three clusters")
    """
    if certificate is not None and not isinstance(certificate, Certificate):
        raise TypeError(
            f"certificate is a {type(certificate).__name__}, not a Certificate; pass the result of "
            "lwcs.certify(data, model)"
        )
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title={title!r} is a {type(title).__name__}; pass a text")
    check_ending(path)
    access = Access(filesystem, storage_options)
    write_report(model, path, coreset, Origin(title), certificate, access)


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse names that browsers do not open as a page."""
    if PurePath(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"path={os.fspath(path)!r}: the report is a page for a browser; pass a name that ends "
            "in .html"
        )


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    coreset: Any,
    origin: Origin,
    certificate: Certificate | None,
    access: Access,
) -> None:
    """Write a report, with what is known of the origin of the model."""
    bokeh()
    check_target(path, access, trying=False)
    text = render(describe(model, coreset), certificate, origin)
    with replacing(path, access) as temporary, explaining(access.place(path)):
        # Names of columns may have characters that UTF-8 cannot encode.
        temporary.write_bytes(text.encode("utf-8", "replace"))
