"""Prior variance and noise of networks without a twin: drawn functions beside the last layer.

    python -m benchmarks.own_priors            # runs what the record lacks, writes record and page
    python -m benchmarks.own_priors --page     # the page from the record

`anchored.exact.drawn` takes the evidence of functions drawn from the whole prior. The other way
holds the hidden layers of a draw fixed: outputs are then linear in the last layer, whose evidence
has a closed form; its mean over draws is made as high as can be. Both choose for the same networks
on the training part of the first standard split of some tables; a fifth of that part is held out,
and all else is `AnchoredRegressor` as it is. The record, benchmarks/results/own_priors.json, has
the mean negative log likelihood of the held-out rows; what is there is not run again.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from anchored import AnchoredRegressor
from anchored._files import write_whole
from anchored.datasets.uci import load_uci_split
from anchored.exact import drawn
from anchored.exact.evidence import NOISE_RANGE
from anchored.paper.prose import table
from benchmarks.sections import write_section

RECORD = Path(__file__).parent / "results" / "own_priors.json"
PAGE = Path(__file__).parents[1] / "docs" / "your_network.md"
HEADING = "## Drawn functions beside the last layer"
_TOP = """`python -m benchmarks.own_priors` compares two kinds of evidence: that of drawn functions,
which the default uses, and that of a last layer on fixed draws of the layers before it. Each kind
chooses a first variance and a noise variance for the same networks, on the training rows of a
table. A fifth of these rows is held out. The table shows the negative log likelihood (NLL) of the
held-out rows, the chosen first variance and the chosen noise variance."""
_END = """If the evidence of the last layer chooses instead of that of drawn functions, the log
likelihood of held-out rows changes by {gain:+.3f} ± {error:.3f} nats a row (mean over {n} cases and
its standard error). It is higher in {less} of {n} cases."""
TABLES = ("boston", "concrete", "energy", "yacht")
WIDTH, N_DRAWS, HELD_OUT = 50, 20, 0.2
NOISES = np.geomspace(*NOISE_RANGE, 60)


def plain(n_in: int) -> Any:
    """Two hidden layers of tanh, the second with a way around it."""
    shapes = {"w0": (n_in, WIDTH), "b0": (WIDTH,), "w1": (WIDTH, WIDTH), "w2": (WIDTH, 1)}
    example = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def apply(params, x):
        hidden = jnp.tanh(x @ params["w0"] + params["b0"])
        return (hidden + jnp.tanh(hidden @ params["w1"])) @ params["w2"]

    return apply, example


def equinox(n_in: int) -> Any:
    """Two hidden layers of ReLU."""
    import equinox as eqx

    return eqx.nn.MLP(n_in, 1, WIDTH, 2, use_final_bias=False, key=jax.random.key(0))


NETWORKS: dict[str, Callable[[int], Any]] = {"plain JAX, tanh": plain, "Equinox, ReLU": equinox}


class Features(NamedTuple):
    """Singular values of last-layer features, and what of the targets lies along them."""

    squares: np.ndarray
    along: np.ndarray
    across: float  # sum of squares of the rest
    n_rows: int

    def evidence(self, noise_var: float) -> float:
        total = self.squares + noise_var
        left = self.n_rows - len(total)
        value = np.sum(np.log(total) + self.along / total) + left * np.log(noise_var)
        return -0.5 * float(value + self.across / noise_var + self.n_rows * np.log(2 * np.pi))


def last_layer(network, params, x) -> list[str]:
    """Names of the parameters that the outputs are linear in, together."""

    def bend(names: list[str]) -> float:
        steps = [{n: p + sign * (n in names) for n, p in params.items()} for sign in (-1, 0, 1)]
        low, middle, high = (np.asarray(network.apply(step, x)) for step in steps)
        return float(np.abs(low - 2 * middle + high).max() / np.abs(high - low).max())

    found = [name for name in params if bend([name]) < 1e-4]
    if not found or bend(found) >= 1e-4:
        raise ValueError(f"no last layer is seen among {', '.join(params)}")
    return found


def features_of(network, prior, names: list[str], x, y, number: int) -> Features:
    params = prior.sample(jax.random.fold_in(jax.random.key(0), number))
    fixed = {name: leaf for name, leaf in params.items() if name not in names}
    start = {name: jnp.zeros_like(params[name]) for name in names}
    slopes = jax.jacobian(lambda last: network.apply({**fixed, **last}, x)[:, 0])(start)
    columns = [np.reshape(slopes[n] * prior.scale[n], (len(x), -1)) for n in names]
    left, singular, _ = np.linalg.svd(np.concatenate(columns, axis=1), full_matrices=False)
    along = np.square(left.T @ y)
    return Features(np.square(singular), along, max(np.sum(y**2) - along.sum(), 0.0), len(y))


def choose_by_last_layer(network, family, x, y, weight, first_var=None, noise_var=None):
    """In place of `drawn.choose_regression`, for one target and rows of weight one."""
    names = last_layer(network, family.unit.sample(jax.random.key(1)), x[:20])
    best = None
    for first in drawn._FIRST_VARS:
        prior = family(first)
        draws = [features_of(network, prior, names, x, y[:, 0], i) for i in range(N_DRAWS)]
        for noise in NOISES:
            value = np.mean([draw.evidence(noise) for draw in draws])
            if best is None or value > best[0]:
                best = value, drawn.Chosen(float(first), np.array([noise]))
    assert best is not None
    return best[1]


WAYS = {"drawn": drawn.choose_regression, "last layer": choose_by_last_layer}


def judged(table_name: str, network: str, way: str) -> dict:
    split = load_uci_split(table_name, 0)
    x, y = split.x_train, split.y_train
    order = np.random.default_rng(0).permutation(len(y))
    held, used = np.split(order, [int(HELD_OUT * len(y))])
    chosen = []

    def choose(*given):
        chosen.append(WAYS[way](*given))
        return chosen[-1]

    with mock.patch("anchored.estimators.regression.choose_regression", choose):
        model = AnchoredRegressor(network=NETWORKS[network](x.shape[1]), random_state=0)
        model.fit(x[used], y[used])
    dist = model.predict_dist(x[held])
    return {
        "nll": float(-np.mean(dist.log_density(y[held]))),
        "rmse": float(np.sqrt(np.mean(np.square(model.predict(x[held]) - y[held])))),
        "first_var": chosen[0].first_var,
        "noise_var": float(chosen[0].noise_var[0]),
    }


def section(record: dict) -> str:
    """What `docs/your_network.md` says of the record."""
    rows, gains = [], []
    for table_name, network in dict.fromkeys(tuple(label.split("/")[:2]) for label in record):
        found = [record.get(f"{table_name}/{network}/{way}") for way in WAYS]
        if all(found):
            gains.append(found[0]["nll"] - found[1]["nll"])
            cells = [f"{f['nll']:.3f}, {f['first_var']:.3g}, {f['noise_var']:.3g}" for f in found]
            rows.append([table_name, network, *cells])
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    end = _END.format(
        gain=np.mean(gains), error=error, n=len(gains), less=sum(g > 0 for g in gains)
    )
    shown = table(("table", "network", *(f"{way}: NLL, variance, noise" for way in WAYS)), rows)
    return "\n".join(
        [HEADING, fill(_TOP, 105), "", shown, "", fill(end, 105, break_on_hyphens=False), ""]
    )


def run() -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in TABLES:
        for network in NETWORKS:
            for way in WAYS:
                label = f"{name}/{network}/{way}"
                if label not in record:
                    record[label] = judged(name, network, way)
                    print(label, record[label], flush=True)
                    write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        run()
    write_section(PAGE, section(json.loads(RECORD.read_text())))
