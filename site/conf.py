"""Sphinx's settings. `make site` assembles the pages and builds them."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from anchored.cli import compile_cache  # noqa: E402

compile_cache.switch_on()  # before JAX is imported
os.environ.setdefault("MPLBACKEND", "Agg")

from anchored_site import names  # noqa: E402
from anchored_site.looks import set_up  # noqa: E402

import anchored  # noqa: E402

for fault, found in (
    ("have no docstring", names.undocumented()),
    ("have no example in their docstrings", names.without_example()),
):
    if found:
        raise SystemExit(f"These public names {fault}: {', '.join(found)}")


def commit() -> str:
    """The commit that the pages are made from, if this is a clone."""
    try:
        words = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude", "*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no clone"


project = "anchored"
author = "the authors of anchored"
version = release = anchored.__version__
extensions = [
    "anchored_site.docstrings",
    "anchored_site.looks",
    "anchored_site.mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
nitpicky = False
default_role = "py:obj"
python_use_unqualified_type_names = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["**/README.md", "gallery/**/*.ipynb", "gallery/**/*.py"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["config.cache"]

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": True,
    "abort_on_example_error": True,
    "min_reported_time": 0,
    "write_computation_times": False,  # that page loads scripts from elsewhere
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "thumbnail_size": (360, 250),
    "image_scrapers": ("matplotlib",),
    "reset_modules": (set_up,),
    "copyfile_regex": "",
    "first_notebook_cell": "%matplotlib inline",
}

html_title = f"anchored {release}"
html_theme = "pydata_sphinx_theme"
html_static_path = ["static", str(HERE.parent / "build" / "site" / "static")]  # ours; made here
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_logo = "static/icon.svg"
html_math_renderer = "mathml"
html_show_search_summary = False  # it fetches pages, which a browser refuses for local files
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_context = {"built_from": commit(), "default_mode": "auto"}
templates_path = [str(HERE / "templates")]
html_theme_options = {
    "logo": {"text": "anchored", "alt_text": "anchored, start page"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["built_from"],
    "footer_end": [],
    "secondary_sidebar_items": {"index": [], "live": [], "**": ["page-toc"]},
    "show_prev_next": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "live": []}
