"""Fashion-MNIST with three dense layers: eight kinds of clothes, and inputs that are none."""

from functools import partial

import numpy as np

from anchored.core.networks import MLP
from anchored.datasets import load_images, shifts
from anchored.paper.runner import Experiment
from anchored.paper.tables.ood import _findings, _picture
from anchored.paper.tables.ood._table import Settings, Task, combine, plan, presets_of

_TROUSER, _SNEAKER = 1, 7
_SHAPE = (28, 28)
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
PRESETS = presets_of(PAPER)


def make_task(s: Settings, data_dir) -> Task:
    clothes, digits = load_images("fashion-mnist", data_dir), load_images("mnist", data_dir)
    photographs = load_images("cifar-10", data_dir).test_x[: s.n_test]
    train = shifts.hold_out(clothes.train_x, clothes.train_y, (_TROUSER, _SNEAKER))
    test = shifts.hold_out(clothes.test_x, clothes.test_y, (_TROUSER, _SNEAKER))
    pixels, labels = train.x[: s.n_train], train.y[: s.n_train]
    mean, scale = pixels.mean(), pixels.std()

    def standard(images: np.ndarray) -> np.ndarray:
        return ((images - mean) / scale).astype(np.float32).reshape(len(images), -1)

    seen = test.x[: s.n_test]
    x_test = standard(seen)
    pictures = {
        "sneaker": test.held_x[test.held_y == _SNEAKER],
        "trouser": test.held_x[test.held_y == _TROUSER],
        "cifar": shifts.grey(shifts.resize(photographs, _SHAPE[0])),
        "mnist": digits.test_x,
        "rotate": shifts.rotate(seen),
        "flip": shifts.flip(seen),
    }
    shifted = {name: standard(images[: s.n_test]) for name, images in pictures.items()}
    shifted["invert"] = shifts.invert(x_test)
    shifted["noise"] = shifts.gaussian_noise(0, len(x_test), x_test.shape[1:])
    shifted["sparse"] = shifts.sparse_noise(1, len(x_test), x_test.shape[1:])

    def shown(row: np.ndarray) -> np.ndarray:
        return np.clip(row * scale + mean, 0, 255).astype(np.uint8).reshape(_SHAPE)

    examples = {"train": pixels[0]} | {name: shown(x[0]) for name, x in shifted.items()}
    network = MLP((100, 100, 100), n_outputs=8)
    return Task(network, standard(pixels), labels, x_test, test.y[: s.n_test], shifted, examples)


EXPERIMENT = Experiment(
    name="table-fashion",
    figure="Tables 2 (bottom) and 7",
    title="Confidence on unfamiliar images: Fashion-MNIST",
    claim="Anchored ensembles make the fewest confident predictions on inputs far from the "
    "training data, at the same confidence on the training data.",
    presets=PRESETS,
    seconds={"smoke": 80, "cpu": 500, "paper": 2500},
    plan=partial(plan, make_task),
    combine=combine,
    findings=partial(_findings.findings, "fashion", GROUPS),
    tables=partial(_findings.tables, "fashion", GROUPS),
    draw=partial(_picture.draw, "fashion", GROUPS),
    size=(11.0, 8.0),
    needs=("Fashion-MNIST, MNIST and CIFAR-10",),
)
