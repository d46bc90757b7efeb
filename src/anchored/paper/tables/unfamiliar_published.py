"""What Pearce et al. (2020) print for out-of-distribution inputs, by table, method and kind.

Accuracy is in percent; the share is that of predictions with a probability of at least 0.9.
"""

from anchored._files import package_data

_PRINTED = package_data("anchored.paper.tables", "unfamiliar_published.toml")
METHODS: tuple[str, ...] = tuple(_PRINTED["methods"])
ACCURACY: dict[str, dict[str, float]] = {
    table: dict(zip(METHODS, row, strict=False)) for table, row in _PRINTED["accuracy"].items()
}


def _by_method(name: str) -> dict[str, dict[str, dict[str, float]]]:
    """Fashion and IMDb have no row for the last method."""
    return {
        table: {
            method: dict(zip(_PRINTED["kinds"][table], row, strict=True))
            for method, row in zip(METHODS, rows, strict=False)
        }
        for table, rows in _PRINTED[name].items()
    }


SHARE, ENTROPY = _by_method("share"), _by_method("entropy")
