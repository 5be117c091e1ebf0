"""Sphinx: the site that `make docs` builds from README.md, docs/ and what build.py writes beside their copies."""

import importlib.metadata

project = "lakehouse"
version = release = importlib.metadata.version("lakehouse")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"lakehouse {version}"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 4  # the anchors that GitHub makes of headings
highlight_language = "text"  # blocks that name no language are mostly what a terminal shows
default_role = "code"  # docstrings mark code with single backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
toc_object_entries = False
smartquotes = False
