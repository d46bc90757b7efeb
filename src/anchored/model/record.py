"""What a fitted model consists of, as plain records, and how each is put in a file and got out.

`save` and `load` do both; reading checks each shape against the network the file declares.
`persistence` turns records into estimators and back, `runtime` predicts from them.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchored.errors import ModelFileError
from anchored.model import file as _saved
from anchored.model.file import Arrays, Fields, quoted
from anchored.prediction.conformal import Conformal

ACTIVATIONS = ("relu", "leaky_relu", "erf", "tanh", "gelu", "softplus")
FAMILIES = ("gaussian", "student-t")
_MAX_LAYERS = 1_000
_MAX_LOG_NOISE = 100.0
# Types of class labels; those of an object array are texts.
_LABELS = {
    "str": str,
    "object": str,
    "bool": bool,
    **{f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": float,
    "float64": float,
}

Layers = tuple[dict[str, np.ndarray], ...]  # parameters: of one member, or stacked over members


@dataclass(frozen=True)
class FittedNetwork:
    """A network by name and fields.

    Attributes
    ----------
    name : MLP, ConvNet or TextCNN.
    fields : its constructor's arguments, tuples where it takes several numbers.
    sizes : what its parameters depend on besides: for MLP (inputs,), for ConvNet (channels,
        pixels left after pooling), for TextCNN ().
    """

    name: str
    fields: dict[str, Any]
    sizes: tuple[int, ...]

    def shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """Shapes of one member's parameters."""
        fields = self.fields
        if self.name == "TextCNN":
            embedding = fields["embedding"]
            widths = (fields["window"] * embedding, fields["filters"], fields["hidden"])
            layers = _with_bias(itertools.pairwise((*widths, fields["n_outputs"])))
            return [{"embedding": (fields["vocabulary"], embedding)}, *layers]
        if self.name == "ConvNet":
            filters = [self.sizes[0], *itertools.chain.from_iterable(fields["blocks"])]
            widths = (self.sizes[1] * filters[-1], *fields["hidden"], fields["n_outputs"])
            convolutions = [(3, 3, *pair) for pair in itertools.pairwise(filters)]
            return _with_bias([*convolutions, *itertools.pairwise(widths)])
        widths = (*self.sizes, *fields["hidden"], fields["n_outputs"])
        return _with_bias(itertools.pairwise(widths))

    def pack(self) -> dict:
        return {"name": self.name, "fields": self.fields, "sizes": self.sizes}

    @classmethod
    def unpack(cls, found: Fields) -> "FittedNetwork":
        name = found.text("name", ("MLP", "ConvNet", "TextCNN"))
        given = found.object("fields")
        fields: dict[str, Any] = {"activation": given.text("activation", ACTIVATIONS)}
        whole = ["n_outputs"]
        if name == "TextCNN":
            whole += ["vocabulary", "embedding", "filters", "window", "hidden"]
        else:
            fields["hidden"] = given.wholes("hidden", 1, _MAX_LAYERS)
        if name == "ConvNet":
            blocks = given.take("blocks")
            if not (isinstance(blocks, list) and len(blocks) <= _MAX_LAYERS):
                raise given.wrong("blocks", blocks, "a list of lists of whole numbers")
            inner = [Fields({"blocks": block}) for block in blocks]
            fields["blocks"] = tuple(block.wholes("blocks", 1, _MAX_LAYERS) for block in inner)
        fields |= {field: given.whole(field, 1) for field in whole}
        given.close()
        sizes = found.wholes("sizes", 1)
        n_sizes = {"MLP": 1, "ConvNet": 2, "TextCNN": 0}[name]
        if len(sizes) != n_sizes:
            raise found.wrong("sizes", sizes, f"a list of {n_sizes}")
        found.close()
        return cls(name, fields, sizes)


def _with_bias(weights) -> list[dict[str, tuple[int, ...]]]:
    """Layers with these weights; the last one has no bias unless it is alone."""
    weights = list(weights)
    shapes: list[dict[str, tuple[int, ...]]] = [
        {"bias": shape[-1:], "weight": tuple(shape)} for shape in weights
    ]
    if len(weights) > 1:
        del shapes[-1]["bias"]
    return shapes


@dataclass(frozen=True)
class FittedEnsemble:
    """Members and how their training went; see `anchored.core.ensembles.Ensemble`."""

    network: FittedNetwork
    params: Layers
    centres: Layers
    member_ids: tuple[int, ...]
    retrained: tuple[int, ...]
    status: np.ndarray
    objective: np.ndarray
    steps: np.ndarray

    @property
    def n_members(self) -> int:
        return len(self.member_ids)

    def pack(self, where: str, arrays: dict) -> dict:
        _pack_layers(f"{where}/params", self.params, arrays)
        _pack_layers(f"{where}/centres", self.centres, arrays)
        for name in ("status", "objective", "steps"):
            arrays[f"{where}/{name}"] = getattr(self, name)
        return {
            "network": self.network.pack(),
            "member_ids": self.member_ids,
            "retrained": self.retrained,
        }

    @classmethod
    def unpack(cls, found: Fields, where: str, arrays: Arrays) -> "FittedEnsemble":
        network = FittedNetwork.unpack(found.object("network"))
        member_ids = found.wholes("member_ids")
        if not member_ids or len(set(member_ids)) < len(member_ids):
            raise found.wrong("member_ids", member_ids, "a list of numbers, each once")
        status = arrays.take(f"{where}/status", (None,), np.int64, least=0)
        if max(member_ids) >= len(status) or status.max() > 2:
            raise found.wrong("member_ids", member_ids, "among the members trained")
        steps = arrays.take(f"{where}/steps", (None,), np.int64, least=0)
        shape = (len(steps), len(status))
        objective = arrays.take(f"{where}/objective", shape, finite=False)  # of diverged members
        layers = {
            name: _unpack_layers(f"{where}/{name}", network, arrays, (len(member_ids),))
            for name in ("params", "centres")
        }
        retrained = found.wholes("retrained")
        found.close()
        return cls(
            network,
            layers["params"],
            layers["centres"],
            member_ids,
            retrained,
            status,
            objective,
            steps,
        )


def _pack_layers(where: str, layers: Layers, arrays: dict) -> None:
    for i, layer in enumerate(layers):
        arrays |= {f"{where}/{i}/{name}": array for name, array in layer.items()}


def _unpack_layers(where: str, network: FittedNetwork, arrays: Arrays, lead: tuple = ()) -> Layers:
    return tuple(
        {
            name: arrays.take(f"{where}/{i}/{name}", (*lead, *shape), np.float32)
            for name, shape in layer.items()
        }
        for i, layer in enumerate(network.shapes())
    )


@dataclass(frozen=True)
class FittedShape:
    """Where the noise is larger; see `anchored.error_bars.noise.Shape`."""

    ensemble: FittedEnsemble
    least: float
    most: float


@dataclass(frozen=True)
class FittedNoise:
    """Noise of one output; see `anchored.error_bars.noise.NoiseModel`."""

    factor: float
    noise_var: float
    noise_dof: float
    shape: FittedShape | None
    conformal: Conformal

    def pack(self, where: str, arrays: dict) -> dict:
        for name in ("distance", "dof", "weight"):
            arrays[f"{where}/{name}"] = getattr(self.conformal, name)
        shape = None
        if self.shape is not None:
            ensemble = self.shape.ensemble.pack(f"{where}/shape", arrays)
            shape = {"ensemble": ensemble, "least": self.shape.least, "most": self.shape.most}
        level = {"factor": self.factor, "noise_var": self.noise_var, "noise_dof": self.noise_dof}
        return level | {"shape": shape}

    @classmethod
    def unpack(cls, found: Fields, where: str, arrays: Arrays, n_features: int) -> "FittedNoise":
        weight = arrays.take(f"{where}/weight", (None,), above=0)
        distance = arrays.take(f"{where}/distance", (len(weight),), least=0)
        dof = arrays.take(f"{where}/dof", (len(weight),), above=0)
        if not len(weight):
            raise ModelFileError(f"the tensor `{where}/weight` has no rows.")
        shape, given = None, found.optional_object("shape")
        if given is not None:
            ensemble = FittedEnsemble.unpack(given.object("ensemble"), f"{where}/shape", arrays)
            if (ensemble.network.name, ensemble.network.sizes) != ("MLP", (n_features,)):
                raise given.wrong("ensemble", ensemble.network.name, f"MLP of {n_features} inputs")
            if ensemble.network.fields["n_outputs"] != 1:
                raise given.wrong("ensemble", ensemble.network.fields, "of one output")
            most = given.number("most", above=-_MAX_LOG_NOISE, most=_MAX_LOG_NOISE)
            shape = FittedShape(ensemble, given.number("least", -_MAX_LOG_NOISE, most), most)
            given.close()
        made = cls(
            found.number("factor", above=0),
            found.number("noise_var", above=0),
            found.number("noise_dof", above=2),
            shape,
            Conformal(distance, dof, weight),
        )
        found.close()
        return made


@dataclass(frozen=True)
class FittedRegression:
    """What only a regressor has.

    Attributes
    ----------
    family : of the predictive, gaussian or student-t.
    one_target : whether targets came without an axis of outputs.
    mean, scale : [out] of the targets.
    floor : least variance if the networks predict the noise themselves, else None.
    training_noise_var : [out], the noise in training, standardised; None if there is a floor.
    noise_var : [out], the noise in squared units of the target; None if there is a floor.
    noise : what held-out rows said of each output; None if none were held out.
    """

    family: str
    one_target: bool
    mean: np.ndarray
    scale: np.ndarray
    floor: float | None
    training_noise_var: np.ndarray | None
    noise_var: np.ndarray | None
    noise: tuple[FittedNoise, ...] | None

    def pack(self, where: str, arrays: dict) -> dict:
        for name in ("mean", "scale", "training_noise_var", "noise_var"):
            if getattr(self, name) is not None:
                arrays[f"{where}/{name}"] = np.asarray(getattr(self, name), np.float64)
        noise = self.noise
        if noise is not None:
            noise = [part.pack(f"{where}/noise/{i}", arrays) for i, part in enumerate(noise)]
        plain = {name: getattr(self, name) for name in ("family", "one_target", "floor")}
        return plain | {"noise": noise}

    @classmethod
    def unpack(
        cls, found: Fields, where: str, arrays: Arrays, network: FittedNetwork, n_features: int
    ) -> "FittedRegression":
        n_outputs = network.fields["n_outputs"]
        floor = found.optional_number("floor", above=0)
        if floor is not None and n_outputs % 2:
            raise found.wrong("floor", floor, f"null for a network of {n_outputs} outputs")
        n_targets = n_outputs if floor is None else n_outputs // 2
        one_target = found.flag("one_target")
        if one_target and n_targets > 1:
            raise found.wrong("one_target", one_target, f"false for {n_targets} outputs")
        parts, noise = found.objects("noise"), None
        if parts is not None:
            if floor is not None or len(parts) != n_targets:
                raise found.wrong("noise", len(parts), f"one for each of {n_targets} outputs")
            noise = tuple(
                FittedNoise.unpack(part, f"{where}/noise/{i}", arrays, n_features)
                for i, part in enumerate(parts)
            )
            if len({len(part.conformal.weight) for part in noise}) > 1:
                raise found.wrong("noise", len(noise), "of the same rows for each output")
        variances: dict[str, Any] = {"training_noise_var": None, "noise_var": None}
        if floor is None:
            for name in variances:
                variances[name] = arrays.take(f"{where}/{name}", (n_targets,), least=0)
        made = cls(
            family=found.text("family", FAMILIES),
            one_target=one_target,
            mean=arrays.take(f"{where}/mean", (n_targets,)),
            scale=arrays.take(f"{where}/scale", (n_targets,), above=0),
            floor=floor,
            noise=noise,
            **variances,
        )
        found.close()
        return made


@dataclass(frozen=True)
class FittedModel:
    """Everything that a file holds; either ``regression`` or ``classes`` is None.

    Attributes
    ----------
    package : version of anchored that wrote it.
    parameters : the estimator's constructor arguments, as JSON can say them.
    n_features, feature_names : of the inputs.
    ensemble, prior_mean, prior_scale : in standardised units.
    x_mean, x_scale : of the inputs, None if they are used as they are.
    classes : labels of a classifier.
    temperature : probabilities p are turned into p^(1 / temperature), normalised.
    novelty_scale : what counts as much: epistemic deviation [out], or for classes mutual
        information and spread of the logits [2].
    encoder : how a table becomes inputs, as JSON.
    provenance : what the user wants kept.
    held_out : inputs and targets (class numbers for classes) kept for a report.
    """

    package: str
    parameters: dict[str, Any]
    n_features: int
    feature_names: tuple[str, ...] | None
    ensemble: FittedEnsemble
    prior_mean: Layers
    prior_scale: Layers
    x_mean: np.ndarray | None
    x_scale: np.ndarray | None
    regression: FittedRegression | None
    classes: np.ndarray | None
    temperature: float | None
    novelty_scale: np.ndarray | None
    encoder: dict | None
    provenance: dict
    held_out: tuple[np.ndarray, np.ndarray] | None


def save(model: FittedModel, path: str | Path) -> None:
    """Write the file whole or not at all."""
    plain = ("package", "parameters", "n_features", "feature_names", "temperature", "encoder")
    fields: dict[str, Any] = {name: getattr(model, name) for name in (*plain, "provenance")}
    arrays: dict[str, np.ndarray] = {}
    for name in ("x_mean", "x_scale", "novelty_scale"):
        if getattr(model, name) is not None:
            arrays[name] = np.asarray(getattr(model, name), np.float64)
    fields["ensemble"] = model.ensemble.pack("ensemble", arrays)
    _pack_layers("prior/mean", model.prior_mean, arrays)
    _pack_layers("prior/scale", model.prior_scale, arrays)
    fields["regression"] = fields["classes"] = None
    if model.regression is not None:
        fields["regression"] = model.regression.pack("regression", arrays)
    if model.classes is not None:
        fields["classes"] = {"type": label_type(model.classes), "labels": model.classes.tolist()}
    if model.held_out is not None:
        arrays["held_out/x"], arrays["held_out/y"] = model.held_out
    _saved.write(path, fields, arrays)


def load(path: str | Path) -> FittedModel:
    """Read a file; a `ModelFileError` of one line says what is wrong with it."""
    try:
        return _unpack(*_saved.read(path))
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be used as a model: {error}") from error


def _unpack(found: Fields, arrays: Arrays) -> FittedModel:
    n_features = found.whole("n_features", 1)
    ensemble = FittedEnsemble.unpack(found.object("ensemble"), "ensemble", arrays)
    network = ensemble.network
    if network.name == "MLP" and network.sizes != (n_features,):
        raise found.wrong("n_features", n_features, f"{network.sizes[0]}, as the network has it")
    names = found.texts("feature_names")
    if names is not None and len(names) != n_features:
        raise found.wrong("feature_names", names, f"{n_features} of them")
    x_mean = x_scale = None
    if network.name != "TextCNN":
        shape = (n_features,) if network.name == "MLP" else ()
        x_mean, x_scale = arrays.take("x_mean", shape), arrays.take("x_scale", shape, above=0)
    regression = classes = None
    if (given := found.optional_object("regression")) is not None:
        regression = FittedRegression.unpack(given, "regression", arrays, network, n_features)
        n_novelty, y_shape = len(regression.scale), (len(regression.scale),)
        held_out = _unpack_held_out(
            arrays, n_features, () if regression.one_target else y_shape, np.float64
        )
        if (value := found.take("classes")) is not None:
            raise found.wrong("classes", value, "null beside `regression`")
    else:
        classes, n_novelty = _unpack_classes(found.object("classes"), network), 2
        held_out = _unpack_held_out(arrays, n_features, (), np.int64)
        if held_out is not None and not np.all(held_out[1] < len(classes)):
            raise ModelFileError("the tensor `held_out/y` has numbers that no class has.")
    model = FittedModel(
        package=found.text("package"),
        parameters=found.plain_object("parameters"),
        n_features=n_features,
        feature_names=names,
        ensemble=ensemble,
        prior_mean=_unpack_layers("prior/mean", network, arrays),
        prior_scale=_unpack_layers("prior/scale", network, arrays),
        x_mean=x_mean,
        x_scale=x_scale,
        regression=regression,
        classes=classes,
        temperature=found.optional_number("temperature", above=0),
        novelty_scale=arrays.optional("novelty_scale", (n_novelty,), least=0),
        encoder=found.optional_plain_object("encoder"),
        provenance=found.plain_object("provenance"),
        held_out=held_out,
    )
    found.close()
    arrays.close()
    return model


def _unpack_held_out(arrays: Arrays, n_features: int, y_shape: tuple, dtype: type):
    if "held_out/y" not in arrays:
        return None
    least = 0 if dtype is np.int64 else -math.inf
    y = arrays.take("held_out/y", (None, *y_shape), dtype, least=least)
    return arrays.take_inputs("held_out/x", len(y), n_features), y


def label_type(classes: np.ndarray) -> str | None:
    """The name under which labels of this type are kept, None if they cannot be."""
    name = "str" if classes.dtype.kind == "U" else classes.dtype.name
    texts = all(isinstance(label, str) for label in classes) if name == "object" else True
    return name if name in _LABELS and texts else None


def _unpack_classes(found: Fields, network: FittedNetwork) -> np.ndarray:
    n_outputs = network.fields["n_outputs"]
    name = found.text("type", _LABELS)
    labels: Any = found.take("labels")
    kind = _LABELS[name]
    if not (isinstance(labels, list) and all(type(label) is kind for label in labels)):
        raise found.wrong("labels", labels, f"a list of {kind.__name__}")
    if len(labels) != n_outputs or n_outputs < 2 or len(set(labels)) < n_outputs:
        raise found.wrong("labels", labels, f"{n_outputs} different ones, at least 2")
    if kind is float and not all(math.isfinite(label) for label in labels):
        raise found.wrong("labels", labels, "finite")
    found.close()
    try:
        return np.array(labels, dtype=name)
    except (OverflowError, ValueError) as error:
        raise ModelFileError(f"`classes/labels` {quoted(labels)} are not {name}.") from error
