"""The report: one HTML file about the clusters of a model, which opens offline in any browser.

Figures are made with Bokeh, whose script is part of the file; the page is made with Jinja.
"""

from __future__ import annotations

from lwcs.reporting.page import report

__all__ = ["report"]
