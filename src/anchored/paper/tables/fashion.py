"""Fashion-MNIST with three dense layers: eight kinds of clothes, and inputs that are none."""

import numpy as np

from anchored.core.networks import MLP
from anchored.datasets import load_images, shifts
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.tables.unfamiliar import Settings, Task, image_task
from anchored.paper.tables.unfamiliar_record import experiment

_TROUSER, _SNEAKER = 1, 7
_SIDE = 28
GROUPS = {
    "edge": ("sneaker", "trouser"),
    "cifar": ("cifar",),
    "mnist": ("mnist",),
    "distort": ("rotate", "flip", "invert"),
    "noise": ("noise", "sparse"),
}
_EPOCHS = {"regularised": 30, "unconstrained": 30, "anchored": 30}
PAPER = Settings(
    n_seeds=5, epochs=_EPOCHS, batch_size=256, learning_rate=0.005, first_var=100.0, later_var=4.0
)
PRESETS = CATALOGUE["table-fashion"].presets_of(PAPER)


def make_task(s: Settings, data_dir) -> Task:
    clothes, digits = load_images("fashion-mnist", data_dir), load_images("mnist", data_dir)
    photographs = load_images("cifar-10", data_dir).test_x[: s.n_test]
    train = shifts.hold_out(clothes.train_x, clothes.train_y, (_TROUSER, _SNEAKER))
    test = shifts.hold_out(clothes.test_x, clothes.test_y, (_TROUSER, _SNEAKER))
    seen = test.x[: s.n_test]
    pictures = {
        "sneaker": test.held_x[test.held_y == _SNEAKER],
        "trouser": test.held_x[test.held_y == _TROUSER],
        "cifar": shifts.grey(shifts.resize(photographs, _SIDE)),
        "mnist": digits.test_x,
        "rotate": shifts.rotate(seen),
        "flip": shifts.flip(seen),
    }

    def far(x: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "invert": shifts.invert(x),
            "noise": shifts.gaussian_noise(0, len(x), x.shape[1:]),
            "sparse": shifts.sparse_noise(1, len(x), x.shape[1:]),
        }

    network = MLP((100, 100, 100), n_outputs=8)
    return image_task(s, network, train, test, pictures, far, row_shape=(-1,))


EXPERIMENT = experiment("fashion", PRESETS, make_task, GROUPS)
