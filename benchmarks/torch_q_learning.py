"""The agent of `fig-rl-push` as one would write it in plain PyTorch: a loop over steps and members.

Five anchored Q-networks, one Gymnasium environment, a replay buffer of NumPy arrays.
"""

import time

import gymnasium
import numpy as np
import torch

from anchored.rl import PlanarPush, QSettings
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


class Agent:
    """One-step targets; all else as in the settings."""

    def __init__(self, settings: QSettings, seed: int = 0):
        torch.manual_seed(seed)
        self.s, self.rng = settings, np.random.default_rng(seed)
        self.members = [self._network() for _ in range(settings.n_members)]
        self.targets = [self._network() for _ in range(settings.n_members)]
        self.anchors = [[p.detach().clone() for p in m.parameters()] for m in self.members]
        self.optimisers = [
            torch.optim.Adam(m.parameters(), settings.learning_rate) for m in self.members
        ]
        self.x = np.zeros((settings.capacity, 4), np.float32)
        self.next = np.zeros_like(self.x)
        self.action = np.zeros(settings.capacity, np.int64)
        self.reward = np.zeros(settings.capacity, np.float32)
        self.n_seen = self.n_updates = 0

    def _network(self) -> torch.nn.Module:
        layers, width = [], 4
        for n in self.s.hidden:
            layers += [torch.nn.Linear(width, n), torch.nn.ReLU()]
            width = n
        return torch.nn.Sequential(*layers, torch.nn.Linear(width, 4, bias=False))

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
        for j, member in enumerate(self.members):
            with torch.no_grad():
                goal = reward + self.s.gamma * self.targets[j](then).max(1).values
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


def steps_a_second(settings: QSettings, like: PlanarPush, n_rounds: int) -> float:
    """Of the clock of this process, on one thread."""
    torch.set_num_threads(1)
    agent, env = Agent(settings), Push(like)
    env.reset(seed=0)
    started = time.process_time()
    n_steps = sum(agent.round(env) for _ in range(n_rounds))
    return n_steps / (time.process_time() - started)
