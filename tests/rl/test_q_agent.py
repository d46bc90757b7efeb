"""The agent on all kinds of environments, its files, and what it says when something is wrong."""

import dataclasses
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from anchored import MLP
from anchored.errors import ModelFileError
from anchored.rl import PlanarPush, QAgent, QSettings, in_processes, shell
from tests.rl.worlds import Line, Steps, steps

SMALL = QSettings(n_members=3, hidden=(6,), train_every=4, n_updates=5, target_every=3, capacity=60)


def curve(agent):
    return np.stack(agent.curve)


def stopped_after(n):
    def stop(played):
        if played.n_done >= n:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("world", [Line, Steps])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, monkeypatch, world):
    monkeypatch.setattr("anchored.rl.q_agent._SECONDS", 0.0)  # keep after every round
    monkeypatch.setattr("anchored.rl.q_agent._CALL_SECONDS", 0.0)
    whole = QAgent(SMALL, seed=3).fit(world(), 24)
    broken = QAgent(SMALL, seed=3)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(world(), 24, checkpoint=tmp_path, on_round=stopped_after(12))
    again = QAgent(SMALL, seed=3).fit(world(), 24, checkpoint=tmp_path)
    assert QAgent.load(tmp_path / "q_agent.safetensors").n_episodes > 0
    np.testing.assert_array_equal(curve(whole), curve(again))
    for a, b in zip(_leaves(whole), _leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [file.name for file in tmp_path.iterdir()] == ["q_agent.safetensors"]


def _leaves(agent):
    import jax

    return map(np.asarray, jax.tree.leaves(agent.state))


def test_a_second_fit_goes_on():
    agent, whole = QAgent(SMALL), QAgent(SMALL).fit(Line(), 16)
    agent.fit(Line(), 8).fit(Line(), 16)
    np.testing.assert_array_equal(curve(agent), curve(whole))


def test_it_learns_to_go_right():
    settings = dataclasses.replace(
        SMALL, hidden=(20,), n_updates=100, target_every=20, gamma=0.9, noise_var=0.01,
        learning_rate=0.01,
    )  # fmt: skip
    agent = QAgent(settings).fit(Line(), 80)
    assert agent.curve.total[-20:].mean() > 0.9
    for env in (Line(), shell(Line())):
        judged = agent.evaluate(env, 3)
        np.testing.assert_array_equal(judged, [[1, 1, 1], [2, 2, 2], [1, 1, 1]])
    assert agent.predict([0.0]) == 1
    np.testing.assert_array_equal(agent.predict([[0.0], [1.0]]), [1, 1])
    q = agent.q_distribution([[0.0], [1.0]])
    np.testing.assert_allclose(q.mean[:, 1], [0.9, 1.0], atol=0.05)  # of what it does
    far = agent.q_distribution([30.0])
    assert far.epistemic_var.mean() > 9 * q.epistemic_var.mean()


def test_saved_and_loaded_it_is_the_same(tmp_path):
    agent = QAgent(SMALL, seed=5).fit(Line(), 8)
    agent.save(tmp_path / "a.safetensors")
    other = QAgent.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(agent.q_values([[0.3]]), other.q_values([[0.3]]))
    agent.fit(Line(), 16)
    other.fit(Line(), 16)
    np.testing.assert_array_equal(curve(agent), curve(other))
    content = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[:-100])
    with pytest.raises(ModelFileError, match=r"cut.safetensors cannot be loaded: .*"):
        QAgent.load(tmp_path / "cut.safetensors")


def test_an_own_network_is_given_again_at_load(tmp_path):
    network = MLP((4, 4), n_outputs=2, activation="tanh")
    agent = QAgent(SMALL, network=network).fit(Line(), 4)
    agent.save(tmp_path / "a.safetensors")
    with pytest.raises(ModelFileError, match="give its network: it was MLP"):
        QAgent.load(tmp_path / "a.safetensors")
    other = QAgent.load(tmp_path / "a.safetensors", network=network)
    np.testing.assert_array_equal(agent.q_values([[0.3]]), other.q_values([[0.3]]))


def test_a_checkpoint_of_another_run_is_not_used(tmp_path):
    QAgent(SMALL).fit(Line(), 4, checkpoint=tmp_path)
    other = dataclasses.replace(SMALL, gamma=0.5)
    with pytest.raises(ValueError, match="is from a run with another settings, seed; give another"):
        QAgent(other, seed=1).fit(Line(), 8, checkpoint=tmp_path)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_vectors_of_environments_play_the_same_episodes(mode):
    """Three at a time where four are wanted, of episodes of different lengths."""

    def make():
        return gymnasium.make("CartPole-v1", max_episode_steps=12)

    settings = dataclasses.replace(SMALL, capacity=500)
    one = QAgent(settings).fit(make(), 8)
    many = SyncVectorEnv([make] * 3, autoreset_mode=mode)
    together = QAgent(settings).fit(many, 8)
    np.testing.assert_array_equal(curve(one), curve(together))
    np.testing.assert_allclose(one.q_values(np.zeros(4)), together.q_values(np.zeros(4)), rtol=1e-4)
    assert len(np.unique(one.curve.length)) > 1


def test_processes_play_the_same_episodes():
    one = QAgent(SMALL).fit(Steps(), 8)
    with in_processes(steps, 2) as env:
        shared = QAgent(SMALL).fit(env, 8)
    np.testing.assert_array_equal(curve(one), curve(shared))


def test_actions_are_counted_from_where_the_space_starts():
    env = Steps()
    QAgent(SMALL).fit(env, 8)
    assert set(env.actions) <= {1, 2, 3}
    assert max(env.actions) > 1


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ("actions", ValueError, "must have discrete actions"),
        ("image", ValueError, "must have vectors as observations"),
        ("reward", ValueError, "gave the reward nan at step 1"),
        ("observation", ValueError, "gave the observation"),
        ("endless", RuntimeError, "has not ended after 30 steps, `max_steps`. Give"),
    ],
)
def test_bad_environments_are_named(wrong, error, words):
    with pytest.raises(error, match=words):
        QAgent(SMALL).fit(Steps(wrong), 4, max_steps=30)


def test_bad_numbers_of_a_pure_environment_are_named_and_nothing_is_lost():
    agent = QAgent(SMALL).fit(Line(), 8)
    with pytest.raises(ValueError, match="not finite, in one of the episodes"):
        agent.fit(Line(bad=np.nan), 400)
    assert agent.n_episodes == int(agent.state.episode) >= 8
    assert np.all(np.isfinite(agent.q_values([[0.0]])))
    agent.fit(Line(), agent.n_episodes + 4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "anchord"}, "Did you mean 'anchored'"),
        ({"n_members": 0}, "`n_members` must be a positive whole number; got 0"),
        ({"noise_var": 0.0}, "`noise_var` must be a positive number; got 0.0"),
        ({"gamma": 1.5}, "`gamma` must be between 0 and 1; got 1.5"),
        ({"epsilon_episodes": -1}, "`epsilon_episodes` must be a whole number, 0 or more; got -1"),
    ],
)
def test_bad_settings_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        QSettings(**changes)


def test_bad_calls_are_named():
    agent = QAgent(SMALL)
    with pytest.raises(RuntimeError, match="call `fit` first"):
        agent.predict([0.0])
    with pytest.raises(ValueError, match="`n_episodes` must be a multiple of `train_every`, 4"):
        agent.fit(Line(), 5)
    with pytest.raises(TypeError, match="has no `observation_space`"):
        agent.fit(object(), 4)
    with pytest.raises(ValueError, match="`capacity` must be at least a round's rows, 200"):
        agent.fit(PlanarPush(), 4)
    agent = QAgent(SMALL).fit(Line(), 4)
    with pytest.raises(ValueError, match="`observation` must be finite"):
        agent.predict([np.nan])
    with pytest.raises(ValueError, match="Make another `QAgent`"):
        agent.fit(Steps(), 8)
    with pytest.raises(ValueError, match="one output for each of the 2 actions; it gives 5"):
        QAgent(SMALL, network=MLP((4,), n_outputs=5)).fit(Line(), 4)
    with pytest.raises(ValueError, match="`seed` must be a whole number"):
        QAgent(seed=-1)


def test_without_gymnasium_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'anchored\[rl\]'"):
        QAgent(SMALL).fit(Steps(), 4)
    QAgent(SMALL).fit(Line(), 4)  # ours does without


def test_the_tutorial_runs(tmp_path, capsys):
    from examples.own_environment import main

    agent = main(str(tmp_path))
    assert agent.curve.total[-50:].mean() > 0.9
    assert "go right" in capsys.readouterr().out
