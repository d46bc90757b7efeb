"""What Pearce et al. (2020) print for out-of-distribution inputs.

Accuracy in percent, then the share of predictions with a probability of at least 0.9. Fashion's
entries are mean and standard error over five runs (appendix); the others have no errors.
"""

METHODS = ("1x regularised", "5x unconstrained", "5x regularised", "5x anchored", "10x anchored")

ACCURACY: dict[str, dict[str, float]] = {
    "fashion": dict(zip(METHODS[:4], (86.8, 89.0, 87.8, 88.0), strict=True)),
    "imdb": dict(zip(METHODS[:4], (85.3, 89.1, 87.1, 87.7), strict=True)),
    "cifar": dict(zip(METHODS, (81.6, 85.0, 86.1, 85.6, 86.0), strict=True)),
}


def _by_method(columns: tuple[str, ...], *rows: tuple[float, ...]) -> dict[str, dict[str, float]]:
    methods = METHODS[: len(rows)]
    return {m: dict(zip(columns, row, strict=True)) for m, row in zip(methods, rows, strict=True)}


_CIFAR = ("train", "edge", "fashion", "mnist", "scramble", "invert", "noise")
_IMDB = ("train", "reuters", "random 1", "random 2", "random 3")
_FASHION = ("train", "sneaker", "trouser", "cifar", "mnist", "rotate", "flip", "invert", "noise")
_FASHION += ("sparse",)

SHARE: dict[str, dict[str, dict[str, float]]] = {
    "fashion": _by_method(
        _FASHION,
        (0.660, 0.739, 0.429, 0.143, 0.160, 0.609, 0.330, 0.349, 0.271, 0.456),
        (0.733, 0.781, 0.380, 0.301, 0.104, 0.571, 0.300, 0.222, 0.042, 0.048),
        (0.634, 0.589, 0.269, 0.115, 0.072, 0.556, 0.256, 0.213, 0.112, 0.174),
        (0.631, 0.578, 0.325, 0.065, 0.041, 0.497, 0.215, 0.025, 0.006, 0.006),
    ),
    "imdb": _by_method(
        _IMDB,
        (0.637, 0.119, 0.153, 0.211, 0.326),
        (0.670, 0.102, 0.141, 0.100, 0.075),
        (0.612, 0.051, 0.091, 0.076, 0.055),
        (0.603, 0.049, 0.075, 0.061, 0.009),
    ),
    "cifar": _by_method(
        _CIFAR,
        (0.671, 0.466, 0.440, 0.540, 0.459, 0.324, 0.948),
        (0.607, 0.330, 0.208, 0.275, 0.175, 0.209, 0.380),
        (0.594, 0.296, 0.219, 0.188, 0.106, 0.153, 0.598),
        (0.567, 0.258, 0.184, 0.149, 0.134, 0.136, 0.118),
        (0.549, 0.256, 0.119, 0.145, 0.122, 0.124, 0.161),
    ),
}

ENTROPY: dict[str, dict[str, dict[str, float]]] = {
    "fashion": _by_method(
        _FASHION,
        (0.328, 0.253, 0.575, 1.176, 0.984, 0.484, 0.713, 0.836, 0.808, 0.580),
        (0.230, 0.161, 0.535, 0.688, 1.016, 0.453, 0.685, 0.573, 1.036, 0.992),
        (0.352, 0.365, 0.707, 1.239, 1.161, 0.564, 0.807, 1.014, 1.048, 0.919),
        (0.349, 0.327, 0.623, 1.251, 1.295, 0.624, 0.868, 1.098, 1.238, 1.191),
    ),
}
