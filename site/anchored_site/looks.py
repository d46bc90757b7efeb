"""How every picture of the gallery looks, and what it is called where it cannot be seen."""

import re
import warnings
from pathlib import Path

STYLE = {
    "figure.figsize": (6.4, 3.8),
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 11,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def set_up(gallery_conf, fname) -> None:
    """Before each example: the same style, and no warning that scrolls by unread."""
    import matplotlib

    matplotlib.rcdefaults()
    matplotlib.rcParams.update(STYLE)
    warnings.simplefilter("error", RuntimeWarning)


def name_thumbnails(app, doctree, docname) -> None:
    """Give pictures without an alt text the name of the example that they belong to."""
    from docutils import nodes

    for image in doctree.findall(nodes.image):
        if not image.get("alt"):
            stem = Path(image["uri"]).stem
            words = re.sub(r"^sphx_glr_\d*_?|_thumb$", "", stem).replace("_", " ")
            image["alt"] = f"Picture of the example: {words}"


def setup(app):
    app.connect("doctree-resolved", name_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
