import lwcs

project = "lwcs"
copyright = "2026, the lwcs developers"
release = lwcs.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
html_theme = "pydata_sphinx_theme"
html_title = "lwcs"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
napoleon_google_docstring = False
suppress_warnings = ["myst.header"]
# So few pages need no navigation beside them; tables need the width.
html_sidebars = {"**": []}
html_static_path = ["_static"]
html_css_files = ["wide.css"]
