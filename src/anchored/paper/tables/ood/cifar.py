"""CIFAR-10 with a VGG-13: eight kinds of things, and inputs that are none of them."""

from functools import partial

import numpy as np

from anchored.core.networks import ConvNet
from anchored.datasets import load_images, shifts
from anchored.paper.runner import Experiment
from anchored.paper.tables.ood import _findings, _picture
from anchored.paper.tables.ood._table import Settings, Task, combine, plan

_DOG, _SHIP = 5, 8
_SIDE = 32
GROUPS = {name: (name,) for name in ("edge", "fashion", "mnist", "scramble", "invert", "noise")}
PAPER = Settings(
    n_seeds=3,
    epochs={"regularised": 30, "unconstrained": 15, "anchored": 25},
    batch_size=300,
    learning_rate=0.001,
    drops=((10, 0.5), (20, 0.2)),
    first_var=10.0,
    later_var=2.0,
)
PRESETS = {
    "paper": PAPER,
    "cpu": PAPER.replace(
        epochs={"regularised": 12, "unconstrained": 5, "anchored": 6},
        batch_size=50,
        drops=((4, 0.5), (8, 0.2)),
        first_var=30.0,
        later_var=8.0,
        n_train=16_000,
        n_test=1_000,
        narrower=8,
    ),
    "smoke": PAPER.replace(
        n_seeds=1,
        epochs=dict.fromkeys(PAPER.epochs, 1),
        batch_size=50,
        n_train=500,
        n_test=100,
        narrower=32,
    ),
}


def make_task(s: Settings, data_dir) -> Task:
    things = load_images("cifar-10", data_dir)
    clothes, digits = load_images("fashion-mnist", data_dir), load_images("mnist", data_dir)
    train = shifts.hold_out(things.train_x, things.train_y, (_DOG, _SHIP))
    test = shifts.hold_out(things.test_x, things.test_y, (_DOG, _SHIP))
    pixels, labels = train.x[: s.n_train], train.y[: s.n_train]
    mean, scale = pixels.mean(), pixels.std()

    def standard(images: np.ndarray) -> np.ndarray:
        return ((images - mean) / scale).astype(np.float32)

    seen = test.x[: s.n_test]
    pictures = {
        "edge": test.held_x,
        "fashion": shifts.colour(shifts.resize(clothes.test_x[: s.n_test], _SIDE)),
        "mnist": shifts.colour(shifts.resize(digits.test_x[: s.n_test], _SIDE)),
        "scramble": shifts.scramble(0, seen),
    }
    x_test = standard(seen)
    shifted = {name: standard(images[: s.n_test]) for name, images in pictures.items()}
    shifted["invert"] = shifts.invert(x_test)
    shifted["noise"] = shifts.sparse_noise(1, len(x_test), x_test.shape[1:])

    def shown(row: np.ndarray) -> np.ndarray:
        return np.clip(row * scale + mean, 0, 255).astype(np.uint8)

    examples = {"train": pixels[0]} | {name: shown(x[0]) for name, x in shifted.items()}
    network = ConvNet.vgg13(n_outputs=8, narrower=s.narrower)
    return Task(network, standard(pixels), labels, x_test, test.y[: s.n_test], shifted, examples)


EXPERIMENT = Experiment(
    name="table-cifar",
    figure="Table 2 (top)",
    title="Confidence on unfamiliar images: CIFAR-10",
    claim="Anchored ensembles make the fewest confident predictions on most kinds of unfamiliar "
    "images; of noise, a single regularised network is nearly always sure.",
    presets=PRESETS,
    seconds={"smoke": 40, "cpu": 3100},
    plan=partial(plan, make_task),
    combine=combine,
    findings=partial(_findings.findings, "cifar", GROUPS),
    tables=partial(_findings.tables, "cifar", GROUPS),
    draw=partial(_picture.draw, "cifar", GROUPS),
    size=(11.0, 8.0),
    needs=("CIFAR-10, Fashion-MNIST and MNIST",),
)
