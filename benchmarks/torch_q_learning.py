"""Bayesian Q-learning as one would write it in plain PyTorch: a loop over steps and members.

Anchored Q-networks, one Gymnasium environment, a replay buffer of NumPy arrays.
"""

import time

import gymnasium
import numpy as np
import torch

from anchored.rl import DeepSea, PlanarPush, QSettings
from anchored.rl.environments.deep_sea import COST, action_mapping
from anchored.rl.environments.planar_push import REACHED, STRIDE, UNIT

_TOUCH = 0.045
_DIRECTIONS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


class Push(gymnasium.Env):
    """`PlanarPush` in NumPy."""

    def __init__(self, like: PlanarPush):
        self.like = like
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.gripper, self.cube = np.zeros(2), np.zeros(2)
        while np.hypot(*self.cube) < 0.1:
            self.cube = self.np_random.uniform(-0.15, 0.15, 2)
        angle = self.np_random.uniform(0, 2 * np.pi)
        self.goal = self.cube + self.like.radius * np.array([np.cos(angle), np.sin(angle)])
        self.n_steps = 0
        return self._seen(), {}

    def step(self, action):
        noise = self.like.noise * self.np_random.normal(size=2)
        self.gripper = self.gripper + STRIDE * (self.like.move * _DIRECTIONS[action] + noise)
        apart = self.cube - self.gripper
        distance = max(np.hypot(*apart), 1e-6)
        if distance < _TOUCH:
            self.cube = self.cube + apart / distance * (_TOUCH - distance)
        self.n_steps += 1
        reward = -float(np.hypot(*(self.goal - self.cube)) > REACHED)
        return self._seen(), reward, False, self.n_steps >= self.like.max_steps, {}

    def _seen(self):
        both = np.concatenate([self.cube - self.gripper, self.goal - self.cube])
        return (both / UNIT).astype(np.float32)


class Sea(gymnasium.Env):
    """`DeepSea` in NumPy, with the one-hot code of the cell as its observation."""

    def __init__(self, like: DeepSea):
        self.size, self.right = like.size, action_mapping(like.size, like.mapping_seed)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (like.n_observed,))
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row = self.column = 0
        return self._seen(), {}

    def step(self, action):
        right, last = action == self.right[self.row, self.column], self.size - 1
        reward = float(right and self.column == last) - right * COST / self.size
        self.column = int(np.clip(self.column + (1 if right else -1), 0, last))
        self.row += 1
        return self._seen(), reward, self.row == self.size, False, {}

    def _seen(self):
        seen = np.zeros(self.size**2, np.float32)
        if self.row < self.size:
            seen[self.row * self.size + self.column] = 1.0
        return seen


class Agent:
    """One-step targets; all else as in the settings."""

    def __init__(self, settings: QSettings, env: gymnasium.Env, seed: int = 0):
        torch.manual_seed(seed)
        self.s, self.rng = settings, np.random.default_rng(seed)
        self.n_observed, self.n_actions = env.observation_space.shape[0], env.action_space.n
        self.members = [self._network() for _ in range(settings.n_members)]
        self.targets = [self._network() for _ in range(settings.n_members)]
        self.anchors = [[p.detach().clone() for p in m.parameters()] for m in self.members]
        self.optimisers = [
            torch.optim.Adam(m.parameters(), settings.learning_rate) for m in self.members
        ]
        self.x = np.zeros((settings.capacity, self.n_observed), np.float32)
        self.next = np.zeros_like(self.x)
        self.action = np.zeros(settings.capacity, np.int64)
        self.reward = np.zeros(settings.capacity, np.float32)
        self.goes_on = np.zeros(settings.capacity, np.float32)
        self.n_seen = self.n_updates = 0

    def _network(self) -> torch.nn.Module:
        layers, width = [], self.n_observed
        for n in self.s.hidden:
            layers += [torch.nn.Linear(width, n), torch.nn.ReLU()]
            width = n
        return torch.nn.Sequential(*layers, torch.nn.Linear(width, self.n_actions, bias=False))

    def round(self, env: gymnasium.Env) -> int:
        """Episodes, then training; how many steps of the environment there were."""
        n_steps = 0
        for _ in range(self.s.train_every):
            member = self.members[self.rng.integers(self.s.n_members)]
            x, _ = env.reset()
            over = False
            while not over:
                with torch.no_grad():
                    action = int(member(torch.from_numpy(x)).argmax())
                seen, reward, done, cut, _ = env.step(action)
                place = self.n_seen % self.s.capacity
                self.x[place], self.next[place] = x, seen
                self.action[place], self.reward[place] = action, reward
                self.goes_on[place] = not done
                self.n_seen += 1
                x, over = seen, done or cut
                n_steps += 1
        for _ in range(self.s.n_updates):
            self._update()
        return n_steps

    def _update(self) -> None:
        rows = self.rng.integers(min(self.n_seen, self.s.capacity), size=self.s.batch_size)
        x, then = torch.from_numpy(self.x[rows]), torch.from_numpy(self.next[rows])
        action = torch.from_numpy(self.action[rows])[:, None]
        reward = torch.from_numpy(self.reward[rows]) / self.s.value_scale
        discount = self.s.gamma * torch.from_numpy(self.goes_on[rows])
        for j, member in enumerate(self.members):
            with torch.no_grad():
                goal = reward + discount * self.targets[j](then).max(1).values
            error = member(x).gather(1, action)[:, 0] - goal
            var = self.s.noise_var / self.s.value_scale**2
            pull = sum(
                ((p - a) ** 2).sum()
                for p, a in zip(member.parameters(), self.anchors[j], strict=True)
            )
            loss = 0.5 * (error**2).mean() / var + 0.5 * pull / self.n_seen
            self.optimisers[j].zero_grad()
            loss.backward()
            self.optimisers[j].step()
        self.n_updates += 1
        if self.n_updates % self.s.target_every == 0:
            for target, member in zip(self.targets, self.members, strict=True):
                target.load_state_dict(member.state_dict())


def steps_a_second(settings: QSettings, env: gymnasium.Env, n_rounds: int) -> float:
    """By the clock of this process, on one thread."""
    torch.set_num_threads(1)
    agent = Agent(settings, env)
    env.reset(seed=0)
    started = time.process_time()
    n_steps = sum(agent.round(env) for _ in range(n_rounds))
    return n_steps / (time.process_time() - started)
