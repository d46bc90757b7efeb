"""The demo's messages: what is refused and why, what a scene becomes, what the page is told."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchored._json import quoted
from anchored.demo import presets, protocol
from anchored.demo.presets import DEFAULTS, PROBLEMS
from anchored.demo.protocol import Refused, applied, read
from anchored.exact import rms

SIX = presets.presets()["regression"][0]["points"]


def opening(problem="regression", points=(), settings=None, **fields):
    settings = DEFAULTS[problem].as_dict() | (settings or {})
    record = {"type": "open", "problem": problem, "settings": settings, "points": list(points)}
    return record | fields


def opened(*args, **kwargs):
    return applied(None, read(json.dumps(opening(*args, **kwargs)), None))


def after(scene, **record):
    return applied(scene, read(json.dumps(record), scene))


def refusal(record, scene=None) -> Refused:
    text = record if isinstance(record, str | bytes) else json.dumps(record)
    with pytest.raises(Refused) as caught:
        read(text, scene)
    return caught.value


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_preset_can_be_opened(problem):
    names = []
    for preset in presets.presets()[problem]:
        scene = opened(problem, preset["points"], preset.get("settings"))
        assert len(scene.points) == len(preset["points"])
        assert preset["title"]
        assert preset["text"]
        names.append(preset["name"])
    assert names[-1] == "empty"
    assert len(set(names)) == len(names)


def test_the_first_preset_is_the_paper_s():
    x, y = np.transpose(SIX)
    np.testing.assert_allclose(y, x * np.sin(5 * x), atol=6e-4)  # rounded to three decimals
    blobs = presets.presets()["classification"][0]["points"]
    assert sorted(label for *_, label in blobs) == [0] * 15 + [1] * 15
    assert all(isinstance(label, int) for *_, label in blobs)


BAD = {
    "no JSON": ("{", "message"),
    "bytes": (b"{}", "message"),
    "a list": ("[]", "message"),
    "deep": ("[" * 50_000, "message"),
    "long": (json.dumps({"type": "x" * 70_000}), "message"),
    "long in bytes": (json.dumps({"type": "é" * 40_000}, ensure_ascii=False), "message"),
    "digits": ("9" * 10_000, "message"),
    "no type": ({}, "type"),
    "type": ({"type": "exec"}, "type"),
    "type is a list": ({"type": []}, "type"),
    "type is a deep list": ('{"type": ' + "[" * 500 + "]" * 500 + "}", "type"),
    "id": ({"type": "open", "id": "1"}, "id"),
    "id is true": ({"type": "open", "id": True}, "id"),
    "nothing open": ({"type": "run"}, "type"),
    "more fields": (opening(code="1"), "code"),
    "a field less": ({"type": "open", "problem": "regression", "settings": {}}, "points"),
    "problem": (opening() | {"problem": "sorting"}, "problem"),
    "a setting less": (opening() | {"settings": {}}, "settings.activation"),
    "a setting more": (opening(settings={"depth": 3}), "settings.depth"),
    "noise of classes": (
        opening("classification", settings={"noise_var": 0.1}),
        "settings.noise_var",
    ),
    "rms of classes": (opening("classification", settings={"method": "rms"}), "settings.method"),
    "activation": (opening(settings={"activation": "gelu"}), "settings.activation"),
    "width": (opening(settings={"width": 1025}), "settings.width"),
    "width is no whole number": (opening(settings={"width": 10.5}), "settings.width"),
    "width is true": (opening(settings={"width": True}), "settings.width"),
    "members": (opening(settings={"n_members": 0}), "settings.n_members"),
    "huge": (opening(settings={"n_members": 10**400}), "settings.n_members"),
    "rate": (opening(settings={"learning_rate": 0.3}), "settings.learning_rate"),
    "noise is not a number": (
        json.dumps(opening(settings={"noise_var": 7.5})).replace("7.5", "NaN"),
        "settings.noise_var",
    ),
    "settings is a list": (opening() | {"settings": []}, "settings"),
    "points is a number": (opening() | {"points": 3}, "points"),
    "too many points": (opening(points=[[0, 0]] * 201), "points"),
    "a short point": (opening(points=[[0, 0], [1]]), "points[1]"),
    "a far point": (opening(points=[[0, 0], [0, 0], [0, 1e9]]), "points[2]"),
    "an infinite point": (
        json.dumps(opening(points=[[0, 7.5]])).replace("7.5", "1e999"),
        "points[0]",
    ),
    "a label in regression": (opening(points=[[0, 0, 1]]), "points[0]"),
    "a label of three": (opening("classification", [[0, 0, 2]]), "points[0]"),
    "seed": (opening(seed=-1), "seed"),
    "view": (opening(view=[1, 1]), "view"),
    "view of one": (opening(view=[1]), "view"),
    "view of classes": (opening("classification", view=[0, 1]), "view"),
    "correlation": (
        {"type": "rms", "mean": [0, 0], "variances": [1, 1], "correlation": 1}
        | {"prior_variances": [1, 1]},
        "correlation",
    ),
    "variances": (
        {"type": "rms", "mean": [0, 0], "variances": [1, 0], "correlation": 0}
        | {"prior_variances": [1, 1]},
        "variances[1]",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_messages_name_the_field(name):
    record, field = BAD[name]
    error = refusal(record)
    assert error.field == field
    answer = error.answer()
    assert answer["type"] == "error"
    assert 10 < len(answer["message"]) < 300
    assert answer["message"].endswith(".")


BAD_LATER = {
    "steps": ({"type": "step", "steps": 1001}, "steps"),
    "no steps": ({"type": "step", "steps": 0}, "steps"),
    "pair": ({"type": "weights", "pair": [0, 300]}, "pair[1]"),
    "pair of one": ({"type": "weights", "pair": [0]}, "pair"),
    "frame": ({"type": "ack", "frame": 1.5}, "frame"),
    "view": ({"type": "view", "view": [0, "1"]}, "view[1]"),
    "run with more": ({"type": "run", "fast": True}, "fast"),
    "setting": ({"type": "settings", "settings": {"first_var": 0}}, "settings.first_var"),
}


@pytest.mark.parametrize("name", BAD_LATER)
def test_bad_messages_to_an_open_scene_name_the_field(name):
    record, field = BAD_LATER[name]
    error = refusal(record | {"id": 7}, opened(points=SIX))
    assert (error.field, error.answer()["id"]) == (field, 7)


def test_an_error_does_not_repeat_what_was_sent_at_length():
    words = refusal({"type": "<script>" * 1000}).answer()["message"]
    assert len(words) < 300
    name = refusal(opening(**{"\n" + "x" * 5000: 1})).field
    assert len(name) < 60
    assert name.isprintable()


def test_a_value_too_deep_to_write_out_is_named_in_short():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert quoted(deep) == "lists in lists"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
fields = st.sampled_from(
    ["problem", "settings", "points", "seed", "view", "steps", "pair", "frame", "mean", "id"]
)


@given(
    kind=st.sampled_from([*protocol._FIELDS, "other"]),
    record=st.dictionaries(fields, anything, max_size=5),
    base=st.booleans(),
    scene=st.sampled_from([None, "regression", "classification"]),
)
def test_whatever_comes_is_refused_or_makes_a_lawful_scene(kind, record, base, scene):
    scene = scene and opened(scene)
    record = (opening() if base else {}) | {"type": kind} | record
    try:
        message = read(json.dumps(record), scene)
    except Refused as error:
        json.dumps(error.answer(), allow_nan=False)
        return
    if message.type in protocol.CHANGES:
        scene = applied(scene, message)
        assert len(scene.points) == len(scene.numbers) <= presets.MAX_POINTS
        n = presets.n_parameters(scene.problem, scene.settings.width)
        assert max(scene.pair) < n


def test_points_keep_their_numbers_while_others_come_move_and_go():
    scene = opened(points=[[0, 0], [1, 1], [2, 2]])
    assert scene.numbers == (0, 1, 2)
    added = after(scene, type="points", points=[[0, 0], [1, 1], [2, 2], [3, 3]])
    assert added.numbers == (0, 1, 2, 3)
    moved = after(added, type="points", points=[[0, 0], [1, 5], [2, 2], [3, 3]])
    assert moved.numbers == (0, 1, 2, 3)
    gone = after(moved, type="points", points=[[1, 5], [2, 2], [3, 3]])
    assert gone.numbers == (1, 2, 3)
    again = after(gone, type="points", points=[[1, 5], [2, 2], [3, 3], [0, 0], [3, 3]])
    assert again.numbers == (1, 2, 3, 4, 5)


def test_a_change_of_width_brings_the_pair_back_into_range():
    scene = after(opened(points=SIX), type="weights", pair=[3, 299])
    assert scene.pair == (3, 299)
    assert after(scene, type="settings", settings={"noise_var": 0.1}).pair == (3, 299)
    assert after(scene, type="settings", settings={"width": 4}).pair == (4, 8)


def test_messages_change_what_they_say_and_nothing_else():
    scene = opened(points=SIX, seed=3)
    assert after(scene, type="anchors").anchors == 1
    assert after(scene, type="reset").initial == 1
    assert after(scene, type="view", view=[-1, 4]).view == (-1.0, 4.0)
    changed = after(scene, type="settings", settings={"method": "rms"})
    assert changed.settings.method == "rms"
    assert (changed.points, changed.seed) == (scene.points, 3)
    assert after(scene, **opening("classification")).opened == scene.opened + 1


def test_the_tab_on_rms_is_the_library_s():
    record = {"mean": [1.0, -2.0], "variances": [0.5, 3.0], "correlation": -0.6}
    record |= {"prior_variances": [2.0, 0.7]}
    answer = protocol.rms_answer(read(json.dumps({"type": "rms", "id": 4} | record), None))
    cov = np.array([[0.5, -0.6 * np.sqrt(1.5)], [-0.6 * np.sqrt(1.5), 3.0]])
    prior, precision = rms.Normal(np.zeros(2), np.diag([2.0, 0.7])), np.linalg.inv(cov)
    pull = precision @ record["mean"]
    want = {
        "likelihood": rms.Normal(np.array(record["mean"]), cov),
        "prior": prior,
        "posterior": rms.posterior(prior, precision, pull),
        "anchored": rms.anchored_posterior(prior, precision, pull),
        "mean_field": rms.mean_field_posterior(prior, precision, pull),
    }
    assert answer["id"] == 4
    for name, normal in want.items():
        np.testing.assert_allclose(answer[name]["mean"], normal.mean, err_msg=name)
        np.testing.assert_allclose(answer[name]["cov"], normal.cov, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(answer[name]["variances"], np.diag(normal.cov))
        correlation = rms.correlation(normal.cov)[0, 1]
        np.testing.assert_allclose(answer[name]["correlation"], correlation)
    # Lemma 1 of the paper: anchors from the prior lose variance.
    assert np.all(np.less(answer["anchored"]["variances"], answer["posterior"]["variances"]))


def test_hello_tells_the_limits_that_are_enforced():
    hello = json.loads(json.dumps(protocol.hello("1.2.3", {"sessions": 5}), allow_nan=False))
    assert hello["limits"]["sessions"] == 5
    assert hello["limits"]["message_bytes"] == 65_536
    for name, (low, high) in hello["ranges"].items():
        opened(settings={name: low})
        opened(settings={name: high})
        assert refusal(opening(settings={name: high * 1.01})).field == f"settings.{name}"
    for name in ("n_members", "width"):
        low, high = hello["limits"][name]
        assert refusal(opening(settings={name: low - 1})).field == f"settings.{name}"
        assert refusal(opening(settings={name: high + 1})).field == f"settings.{name}"
    for name, allowed in hello["choices"].items():
        for value in allowed:
            opened(settings={name: value})
    assert "noise_var" not in hello["defaults"]["classification"]
