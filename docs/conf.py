"""Configuration of the documentation site: `make docs` builds it, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import docstrings
import generate_api
from sphinx.application import Sphinx

import upcl

project = "upcl"
author = "The upcl developers"
copyright = author  # noqa: A001
release = version = upcl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["_build"]
default_role = "literal"  # docstrings write `code` in single backticks

# Markdown
myst_enable_extensions = ["deflist", "dollarmath", "fieldlist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# API reference
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# References to our own names must resolve; those to other packages are not looked up, so that the build needs no network.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|numpy|np|PIL|pydantic|annotated_types|click|rich|sklearn|fastapi|starlette|plotly|matplotlib)\..*"),
    (r"py:.*", r"(collections|contextlib|dataclasses|pathlib|typing|types|enum|abc|concurrent|threading|argparse|io|os)\..*"),
]

html_theme = "furo"
html_title = "upcl"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", generate_api.write_pages)
    app.connect("autodoc-process-docstring", docstrings.add_options)
    app.connect("missing-reference", docstrings.resolve_own_name)
