"""How every picture of the gallery looks."""

import warnings

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
