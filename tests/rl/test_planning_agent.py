"""The planning agent: learning, resuming, files, Gymnasium's environments and bad input."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

from anchored.errors import ModelFileError
from anchored.rl import shell
from anchored.rl.dynamics import DynamicsSettings
from anchored.rl.environments.cartpole import CartPoleSwingUp
from anchored.rl.planning import CrossEntropy, RandomShooting
from anchored.rl.planning_agent import PlanningAgent, PlanningSettings

PURE = CartPoleSwingUp(noise_var=0.001, max_steps=12)
QUICK = PlanningSettings(
    DynamicsSettings(hidden=(8,), n_members=2, capacity=64),
    CrossEntropy(8, 4, 2, horizon=3),
    n_particles=2,
    n_train_steps=10,
    max_steps=12,
)


def agent(settings=QUICK, reward=PURE.reward, features=PURE.features):
    return PlanningAgent(reward, features, settings, seed=3)


@pytest.fixture(scope="module")
def fitted():
    return agent().fit(PURE, 3)


class Stopped(Exception):
    pass


def stop_after(n):
    def on_trial(number, n_trials, total):
        if number == n:
            raise Stopped

    return on_trial


@pytest.mark.parametrize("env", [PURE, shell(PURE)], ids=["pure", "gymnasium"])
def test_a_killed_run_goes_on_with_the_same_curve(env, tmp_path):
    file = tmp_path / "agent.safetensors"
    whole = agent().fit(env, 3)
    with pytest.raises(Stopped):
        agent().fit(env, 3, checkpoint=file, on_trial=stop_after(2))
    told = []
    resumed = agent().fit(env, 3, checkpoint=file, on_trial=lambda *trial: told.append(trial[:2]))
    assert told == [(3, 3)]
    assert resumed.returns_ == whole.returns_
    np.testing.assert_array_equal(resumed.model_.state.theta, whole.model_.state.theta)
    assert int(whole.model_.seen) == 36


def test_a_file_acts_like_the_agent(fitted, tmp_path):
    fitted.save(tmp_path / "agent")
    loaded = PlanningAgent.load(tmp_path / "agent", PURE.reward, PURE.features)
    seen = np.array([0.0, 3.0, 0.1, 0.0])
    fitted.reset()
    for _ in range(3):
        np.testing.assert_array_equal(fitted.act(seen), loaded.act(seen))
    one, other = (a.predict(seen[None], np.ones((1, 1))) for a in (fitted, loaded))
    np.testing.assert_array_equal(one.mean, other.mean)
    assert (one.std > 0).all()


def test_a_file_needs_its_functions_and_its_settings(fitted, tmp_path):
    fitted.save(tmp_path / "agent")
    with pytest.raises(ModelFileError, match="files contain no code: give `reward` again"):
        PlanningAgent.load(tmp_path / "agent")
    (tmp_path / "other").write_bytes(b"none")
    with pytest.raises(ModelFileError, match="it is cut short"):
        PlanningAgent.load(tmp_path / "other")
    other = agent(dataclasses.replace(QUICK, n_particles=4))
    with pytest.raises(ValueError, match="`checkpoint` is from an agent with other settings"):
        other.fit(PURE, 3, checkpoint=tmp_path / "agent")


def test_the_reward_may_be_learnt_by_random_shooting():
    settings = dataclasses.replace(QUICK, planner=RandomShooting(6, horizon=2))
    found = agent(settings, reward=None).fit(shell(PURE), 2)
    assert found.predict(np.zeros((1, 4)), np.zeros((1, 1))).mean.shape == (1, 5)


def test_an_episode_that_never_ends_is_cut():
    endless = shell(dataclasses.replace(PURE, max_steps=10**6))
    assert int(agent().fit(endless, 1).model_.seen) == QUICK.max_steps


@pytest.mark.parametrize("what", ["observation", "reward"])
def test_numbers_that_are_none_are_told_and_nothing_is_lost(what, tmp_path):
    class Spoiled(gym.Wrapper):
        def step(self, action):
            seen, reward, *rest = self.env.step(action)
            return (
                (seen * np.nan, reward, *rest) if what == "observation" else (seen, np.nan, *rest)
            )

    file, good = tmp_path / "agent", shell(PURE)
    learner = agent().fit(good, 1, checkpoint=file)
    with pytest.raises(ValueError, match=f"`env` gave the {what} .*nan.* at step 1 .*be finite"):
        learner.fit(Spoiled(good), 2, checkpoint=file)
    assert learner.fit(good, 2, checkpoint=file).returns_ == agent().fit(good, 2).returns_


def test_bad_calls_are_refused(fitted):
    with pytest.raises(RuntimeError, match="has learned nothing yet: call `fit"):
        agent().act(np.zeros(4))
    with pytest.raises(ValueError, match=r"`observation` must have shape \(4,\); got \(3,\)"):
        fitted.act(np.zeros(3))
    with pytest.raises(ValueError, match="`n_trials` must be a positive whole number; got 0"):
        agent().fit(PURE, 0)
    with pytest.raises(ValueError, match="`n_particles` must be a positive whole number"):
        PlanningSettings(n_particles=0)
    with pytest.raises(ValueError, match=r"3 observed numbers and 1 actions; .* with 4 and 1"):
        fitted.fit(gym.make("Pendulum-v1"), 4)
    with pytest.raises(ValueError, match=r"`env.action_space` must be a Box"):
        agent().fit(gym.make("CartPole-v1"), 1)


def test_a_trial_is_one_program(fitted):
    from anchored.rl import trials

    before = trials._pure_steps._cache_size()
    fitted.fit(dataclasses.replace(PURE, noise_var=0.005), 5)
    assert trials._pure_steps._cache_size() == before
