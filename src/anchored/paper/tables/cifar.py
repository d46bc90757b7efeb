"""CIFAR-10 with a VGG-13: eight classes, and inputs that belong to none of them."""

import numpy as np

from anchored.core.networks import ConvNet
from anchored.datasets import load_images, shifts
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.tables.unfamiliar import Settings, Task, image_task
from anchored.paper.tables.unfamiliar_record import experiment

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
PRESETS = CATALOGUE["table-cifar"].presets_of(PAPER)


def make_task(s: Settings, data_dir) -> Task:
    things = load_images("cifar-10", data_dir)
    clothes, digits = load_images("fashion-mnist", data_dir), load_images("mnist", data_dir)
    train = shifts.hold_out(things.train_x, things.train_y, (_DOG, _SHIP))
    test = shifts.hold_out(things.test_x, things.test_y, (_DOG, _SHIP))
    seen = test.x[: s.n_test]
    pictures = {
        "edge": test.held_x,
        "fashion": shifts.colour(shifts.resize(clothes.test_x[: s.n_test], _SIDE)),
        "mnist": shifts.colour(shifts.resize(digits.test_x[: s.n_test], _SIDE)),
        "scramble": shifts.scramble(0, seen),
    }

    def far(x: np.ndarray) -> dict[str, np.ndarray]:
        noise = shifts.sparse_noise(1, len(x), x.shape[1:])
        return {"invert": shifts.invert(x), "noise": noise}

    network = ConvNet.vgg13(n_outputs=8, narrower=s.narrower)
    return image_task(s, network, train, test, pictures, far, row_shape=(_SIDE, _SIDE, 3))


EXPERIMENT = experiment("cifar", PRESETS, make_task, GROUPS)
