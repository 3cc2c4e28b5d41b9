"""Blocks of code without the empty line that ends an example in Markdown."""

from __future__ import annotations

from typing import Any

from docutils import nodes


def without_last_line(_app: Any, document: nodes.document) -> None:
    """Strip empty lines from the ends of blocks."""
    for block in document.findall(nodes.literal_block):
        stripped = block.astext().rstrip("\n")
        if block.rawsource == block.astext() != stripped:
            block.rawsource = stripped
            block[:] = [nodes.Text(stripped)]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", without_last_line)
    return {"parallel_read_safe": True}
