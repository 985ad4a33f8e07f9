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
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Every reference must resolve, and the build needs no network: names of other packages become text if they exist.
nitpicky = True
nitpick_ignore = [("py:class", "fail_fast=True")]  # how pydantic prints an annotation

html_theme = "furo"
html_title = "upcl"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", generate_api.write_pages)
    app.connect("autodoc-skip-member", docstrings.skip_foreign)
    app.connect("autodoc-process-docstring", docstrings.prepare_text, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", docstrings.add_options)
    app.connect("object-description-transform", docstrings.drop_bounds, priority=400)  # before autodoc adds the types
    app.connect("missing-reference", docstrings.resolve_name)
