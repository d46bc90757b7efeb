"""Bayesian optimisation of a costly function: python examples/optimise_loop.py

Each round tries four points. The state is kept in a file, so you can stop the loop and continue
later.
"""

import math
from pathlib import Path

from anchored.decisions import Category, Float, Integer, Optimiser

SPACE = {
    "temperature": Float(20.0, 90.0),
    "dose": Float(0.01, 10.0, log=True),
    "stirs": Integer(1, 20),
    "solvent": Category(("water", "ethanol", "acetone")),
}


def yield_of(point: dict) -> float:
    """A made-up experiment: its best yield is 10, at 65 degrees, dose 0.5, 8 stirs, ethanol."""
    off = (
        (point["temperature"] - 65) / 20,
        math.log10(point["dose"] / 0.5),
        (point["stirs"] - 8) / 8,
    )
    solvent = {"water": 0.5, "ethanol": 1.0, "acetone": 0.8}[point["solvent"]]
    return 10 * solvent * math.exp(-sum(o * o for o in off))


def main(folder: Path = Path("."), rounds: int = 6) -> Optimiser:
    file = folder / "experiments.json"
    optimiser = Optimiser(SPACE, maximise=True, random_state=0)
    if file.exists():
        optimiser = Optimiser.load(file)
    for _ in range(rounds):
        points = optimiser.ask(4)
        optimiser.tell(points, [yield_of(point) for point in points])
        optimiser.save(file)
        print(f"{len(optimiser.told)} experiments, best yield {optimiser.best.y:.2f}")
    print(optimiser.best.x)
    return optimiser


if __name__ == "__main__":
    main()
