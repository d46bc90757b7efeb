"""The house: the layers of the linter's contract, drawn."""

import tomllib
from html import escape

from anchored_site.places import ROOT

WIDTH, ROOM, GAP = 760, 40, 8


def layers() -> list[list[str]]:
    """The folders of each layer, from the top, as `pyproject.toml` has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    found = next(c for c in contracts["contracts"] if c["name"] == "imports go only downwards")
    return [
        [part.strip().removeprefix("anchored.") for part in layer.split("|")]
        for layer in found["layers"]
    ]


def house() -> str:
    """An SVG picture: one row for each layer, one box for each folder."""
    floors = layers()
    height = len(floors) * (ROOM + GAP) + GAP
    parts = []
    for i, rooms in enumerate(floors):
        top = GAP + i * (ROOM + GAP)
        width = (WIDTH - GAP * (len(rooms) + 1)) / len(rooms)
        for k, name in enumerate(rooms):
            left = GAP + k * (width + GAP)
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROOM}" rx="6"/>'
                f'<text x="{left + width / 2:.1f}" y="{top + ROOM / 2 + 5}">{escape(name)}</text>'
            )
    style = (
        "rect{fill:#dbe7f5;stroke:#2f6db0}"
        "text{font:15px sans-serif;text-anchor:middle;fill:#16324f}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>Layers of the package, the highest first</title><style>{style}</style>"
        f"{''.join(parts)}</svg>\n"
    )
