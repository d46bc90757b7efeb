"""Models for the live page: a saved model's record as JSON, which `static/anchored.js` evaluates.

    python site/anchored_site/live.py model.safetensors model.json

exports a model of your own. Tables' encoders are left out: inputs are the features themselves.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from anchored import runtime
from anchored.model import forward
from anchored.model.record import FittedModel, NetworkRecord, Noise, Regression

DIGITS = 9  # significant: single precision has seven or eight


def as_json(fitted: FittedModel) -> dict:
    """All that JavaScript needs to predict, as plain lists and numbers."""
    return {
        "n_features": fitted.n_features,
        "single": forward.type_of(fitted.members.params) == np.float32,
        "x_mean": _list(fitted.x_mean),
        "x_scale": _list(fitted.x_scale),
        "x_reach": _list(fitted.x_reach),
        "x_limit": _list(fitted.x_limit),
        "x_ramps": _list(fitted.x_ramps),
        "network": _network(fitted.members.network, fitted.members.params),
        "classes": None if fitted.classes is None else fitted.classes.tolist(),
        "temperature": fitted.temperature,
        "novelty_scale": _list(fitted.novelty_scale),
        "regression": None if fitted.regression is None else _regression(fitted.regression),
    }


def _network(network: NetworkRecord, params: dict) -> dict:
    """Layers of all members: weight [member, in, out], bias [member, out] or None."""
    if not network.is_dense or network.fields is None:
        raise ValueError(f"Only an MLP can be exported; this model is a {network.name}.")
    n_layers = sum(path.endswith("/weight") for path in params)
    layers = [
        {"weight": _list(params[f"{i}/weight"]), "bias": _list(params.get(f"{i}/bias"))}
        for i in range(n_layers)
    ]
    return {"activation": network.fields["activation"], "layers": layers}


def _regression(regression: Regression) -> dict:
    if len(regression.scale) != 1:
        raise ValueError(f"Only one target is supported; this model has {len(regression.scale)}.")
    warp = regression.warp
    return {
        "family": regression.family,
        "mean": float(regression.mean[0]),
        "scale": float(regression.scale[0]),
        "floor": regression.floor,
        "noise_var": None if regression.noise_var is None else float(regression.noise_var[0]),
        "noise": None if regression.noise is None else _noise(regression.noise[0]),
        "warp": None
        if warp is None
        else {"shift": warp.shift, "least": warp.least, "most": warp.most, "raised": warp.raised},
    }


def _noise(noise: Noise) -> dict:
    shape, conformal = noise.shape, noise.conformal
    return {
        "factor": noise.factor,
        "noise_var": noise.noise_var,
        "noise_dof": None if np.isinf(noise.noise_dof) else noise.noise_dof,
        "shape": None
        if shape is None
        else {
            "network": _network(shape.network, shape.params),
            "n_features": _row_length(shape.network),
            "least": shape.least,
            "most": shape.most,
        },
        "conformal": None
        if conformal is None
        else {"levels": _list(conformal.levels), "scores": _list(conformal.scores)},
    }


def _row_length(network: NetworkRecord) -> int:
    assert network.row_shape is not None
    return network.row_shape[0]


def _list(array: np.ndarray | None) -> list | None:
    """Numbers as JSON can hold them; infinity becomes null."""
    if array is None:
        return None
    return json.loads(json.dumps(_plain(np.asarray(array, np.float64).tolist())))


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if np.isinf(value) else value


def write_models(folder: Path) -> None:
    """Fit the two models of the live page and write them as one script, which file:// may load."""
    folder.mkdir(parents=True, exist_ok=True)
    models = {"curve": curve(), "patient": patient()}
    text = json.dumps(models, separators=(",", ":"), allow_nan=False)
    (folder / "models.js").write_text(f"window.anchoredModels = {text};\n", encoding="utf-8")


def curve() -> dict:
    """One input, a gap in the data, and noise that grows to the right."""
    from anchored import AnchoredRegressor

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3, -1.2, 100), rng.uniform(1.2, 3, 100)])
    y = np.sin(1.5 * x) + (0.05 + 0.3 * (x > 0)) * rng.normal(size=200)
    model = AnchoredRegressor(hidden=(30,), n_members=8, random_state=0).fit(x[:, None], y)
    return {"model": _saved(model), "points": np.round([x, y], 4).tolist()}


def patient() -> dict:
    """Three measurements of scikit-learn's diabetes data, in their own units."""
    from sklearn.datasets import load_diabetes

    from anchored import AnchoredRegressor

    data = load_diabetes(scaled=False)
    columns = [data.feature_names.index(name) for name in ("bmi", "bp", "s5")]
    x, y = data.data[:, columns], data.target
    model = AnchoredRegressor(hidden=(20,), n_members=6, random_state=0).fit(x, y)
    reach = [x.min(axis=0).tolist(), np.median(x, axis=0).tolist(), x.max(axis=0).tolist()]
    return {"model": _saved(model), "reach": reach, "targets": [float(y.min()), float(y.max())]}


def _saved(model) -> dict:
    """The model as its file has it, because a user would load that file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        return rounded(as_json(runtime.load(path).fitted))


def rounded(value):
    """Numbers with as many digits as single precision has: a smaller file."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    found = as_json(runtime.load(sys.argv[1]).fitted)
    Path(sys.argv[2]).write_text(json.dumps(found, allow_nan=False), encoding="utf-8")
