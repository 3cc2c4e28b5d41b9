"""report(): write the report of a model."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lwcs.describing import describe
from lwcs.foundation.places import Access
from lwcs.foundation.replacing import check_target, explaining, replacing
from lwcs.reporting.bokeh_figures import bokeh
from lwcs.reporting.facts import Origin
from lwcs.trust.certificate import Certificate

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDINGS = (".html", ".htm")


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
    """Refuse names by which a browser would not know the page."""
    if PurePath(path).suffix.lower() not in _ENDINGS:
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
    """Write a report, with what is known of where the model comes from."""
    bokeh()
    check_target(path, access, trying=False)
    from lwcs.reporting.page import render

    text = render(describe(model, coreset), certificate, origin)
    with replacing(path, access) as temporary, explaining(access.place(path)):
        # Names of columns may hold what is no text in UTF-8.
        temporary.write_bytes(text.encode("utf-8", "replace"))
