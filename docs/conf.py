"""How Sphinx builds the documentation: `make docs`."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from public_names import members  # noqa: E402

import lwcs  # noqa: E402

project = "lwcs"
copyright = "2026, the lwcs developers"
version = release = lwcs.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "code_blocks",
    "command_help",
]
templates_path = ["_templates"]
# Tables of results that a page includes are no pages of their own.
included = {
    (page.parent / name).resolve().relative_to(HERE).as_posix()
    for page in HERE.rglob("*.md")
    for name in re.findall(r"^```\{include\} (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    if (page.parent / name).resolve().is_relative_to(HERE)
}
# Quotes and dashes stay as they are typed: options begin with two of them.
smartquotes = False
exclude_patterns = ["_build", "gallery", *sorted(included)]

# Every name of lwcs that is written as a link must have a page. Words of docstrings such as
# "array-like of shape (n, d)", and names of other libraries, have none.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!lwcs\.).*"), (r"py:obj", r"lwcs\.describing\..*")]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

autosummary_context = {"listed": members()}
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": "gallery_order.ReadingOrder",
}

# `make linkcheck` follows links to other sites. Those of this project are there only once it has
# been released.
linkcheck_ignore = [r"https://lwcs\.readthedocs\.io", r"https://github\.com/.*lwcs"]
linkcheck_allowed_redirects = {r"https://doi\.org/.*": r"https://.*"}
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False

html_theme = "pydata_sphinx_theme"
html_title = "lwcs"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "lwcs"},
    "github_url": "https://github.com/lwcs/lwcs",
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
