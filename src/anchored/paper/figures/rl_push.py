"""Appendix C: an agent that pushes a cube to a goal knows what it does not know.

A cell is a run of one agent. A run is saved in the folder of the record every half minute, and
continues from there.
"""

import base64
import dataclasses
import zlib
from functools import partial

import numpy as np

from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures import rl_push_drawing
from anchored.paper.prose import number, sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table
from anchored.rl.environments.planar_push import REACHED, UNIT, PlanarPush
from anchored.rl.q_agent import QAgent
from anchored.rl.q_settings import QSettings

WORDS = {"anchored": "anchored, Thompson sampling", "epsilon-greedy": "one network, epsilon-greedy"}
KINDS = {"A": "a clear best action", "B": "goal reached", "C": "a goal never met"}
_TITLE = (
    "Reward a step and share of episodes that end at the goal: the last {last:,} of learning, and "
    "judged without exploring"
)
_DIRECTIONS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
_SHOWN = 2  # the direction of the scenes that are drawn: left


_PUSH = PlanarPush()
_AGENT = QSettings(
    n_members=5,
    hidden=(50, 50),
    learning_rate=0.001,
    batch_size=100,
    train_every=100,
    n_updates=500,
    target_every=2500,  # five rounds, 500 episodes
    gamma=0.98,
    capacity=100_000,
    n_step=3,
    value_scale=50.0,
    noise_var=1.0,
    prior_scale=0.1,
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Appendix E. Values that the paper does not give are ours; the page explains them."""

    environment: str = "fetch"  # or planar, its stand-in
    n_episodes: int = 40_000
    greedy_episodes: int = 15_000  # of the one beside it: not as long, for time
    agent: QSettings = _AGENT
    epsilon: float = 0.1
    epsilon_episodes: int = 10_000
    push: PlanarPush = _PUSH
    far: float = 0.4  # metres from the cube to a goal that was never met
    n_last: int = 1000  # episodes that the final average is over
    n_judged: int = 300  # episodes played at the end by the mean of the members
    n_processes: int = 2


ABOUT = CATALOGUE["fig-rl-push"]
PRESETS = ABOUT.presets_of(Settings())


def plan(s: Settings, context: Context) -> list[Cell]:
    costs = {"anchored": s.n_episodes, "epsilon-greedy": s.greedy_episodes}
    return [Cell(name, cost, partial(learned, s, context, name)) for name, cost in costs.items()]


def agent_of(s: Settings, name: str) -> QSettings:
    if name == "anchored":
        return s.agent
    return dataclasses.replace(
        s.agent,
        method="unconstrained",
        n_members=1,
        epsilon=s.epsilon,
        epsilon_episodes=s.epsilon_episodes,
    )


def learned(s: Settings, context: Context, name: str) -> dict:
    """A run of one agent: its curve, and what it thinks of the scenes."""
    agent = QAgent(agent_of(s, name), seed=context.seed)
    n_episodes = s.n_episodes if name == "anchored" else s.greedy_episodes
    kept = None if context.folder is None else context.folder / f".fig-rl-push-{name}"
    if s.environment == "fetch":
        from anchored.rl.environments.fetch_push import fetch_push
        from anchored.rl.processes import in_processes

        with in_processes(partial(fetch_push, s.push), s.n_processes) as env:
            agent.fit(env, n_episodes, checkpoint=kept)
        judged = agent.evaluate(fetch_push(s.push), s.n_judged)
    else:
        agent.fit(s.push, n_episodes, checkpoint=kept)
        judged = agent.evaluate(s.push, s.n_judged)
    last = slice(-s.n_last, None)
    curve = agent.curve
    return {
        "n_episodes": agent.n_episodes,
        "n_steps": int(curve.length.sum()),
        "curve": _binned(curve.total / curve.length, s.n_episodes),
        "success": _binned(curve.last == 0, s.n_episodes),
        "final_reward": float(curve.total[last].sum() / curve.length[last].sum()),
        "final_success": float(np.mean(curve.last[last] == 0)),
        "judged_reward": float(judged.total.sum() / judged.length.sum()),
        "judged_success": float(np.mean(judged.last == 0)),
        "scenes": {kind: _seen(agent, scenes(s, kind)) for kind in KINDS},
    }


def _binned(values: np.ndarray, n_episodes: int) -> list[float]:
    """Means over equal shares of the longest run."""
    size = max(1, n_episodes // rl_push_drawing.N_BINS)
    return [float(np.mean(values[i : i + size])) for i in range(0, len(values), size)]


def scenes(s: Settings, kind: str) -> np.ndarray:
    """Inputs [20, 4] of a kind of scene: four directions, and five distances from gripper to cube.

    In scenes A, the goal is straight ahead of the gripper, behind the cube. In scenes B, the cube
    is at the goal and the gripper touches it. In scenes C, the goal is far away.
    """
    near = np.linspace(0.10, 0.14, 5) if kind != "B" else np.linspace(0.055, 0.075, 5)
    beyond = {"A": s.push.radius, "B": 0.2 * REACHED, "C": s.far}[kind]
    pairs = [np.concatenate([d * way, d * beyond]) for way in near for d in _DIRECTIONS]
    return (np.array(pairs) / UNIT).astype(np.float32)


def _seen(agent: QAgent, x: np.ndarray) -> dict:
    """Q of the drawn scene [member, action], and of all the spread and who is best."""
    q = agent.q_values(x)
    spread = q.std(axis=0, ddof=1) if len(q) > 1 else np.zeros(q.shape[1:])
    return {
        "x": x[_SHOWN],
        "q": q[:, _SHOWN],
        "spread": float(np.median(spread.mean(axis=1))),
        "level": float(np.median(q.mean(axis=(0, 2)))),
        "apart": float(np.median(np.ptp(q.mean(axis=0), axis=1))),
        "right": float(np.mean(q.mean(axis=0).argmax(axis=1) == np.arange(len(x)) % 4)),
    }


def combine(s: Settings, results) -> dict:
    return dict(results) | {"pictures": _pictures(s, results["anchored"])}


def _pictures(s: Settings, result: dict) -> dict | None:
    """Pictures of the drawn scenes, if the arm is the real one and can be drawn here."""
    if s.environment != "fetch":
        return None
    from anchored.rl.environments.fetch_scenes import pictures

    found = pictures([np.asarray(result["scenes"][kind]["x"]) for kind in KINDS])
    if found is None:
        return None
    return {kind: _packed(image) for kind, image in zip(KINDS, found, strict=True)}


def _packed(image: np.ndarray) -> dict:
    near = np.ascontiguousarray(image[160:340, 180:360], np.uint8)
    text = base64.b64encode(zlib.compress(near.tobytes(), 9)).decode()
    return {"shape": near.shape, "zlib": text}


def findings(record: Record) -> list[str]:
    numbers = record["numbers"]
    n = {name: numbers[name] for name in WORDS}
    scene = n["anchored"]["scenes"]
    ratio = scene["C"]["spread"] / scene["A"]["spread"] if scene["A"]["spread"] else None
    return sentences(ABOUT.name, n=n, s=record["settings"], scene=scene, ratio=ratio)


def tables(record: Record) -> list[Table]:
    numbers = record["numbers"]
    learning, judging = (
        [f"{what}, {when}" for what in ("reward a step", "at the goal")]
        for when in ("learning", "judged")
    )
    header = ("agent", "episodes", "steps", *learning, *judging)
    rows = []
    for name, words in WORDS.items():
        n = numbers[name]
        end = [
            text
            for when in ("final", "judged")
            for text in (number(n[f"{when}_reward"], ".3f"), f"{100 * n[f'{when}_success']:.1f} %")
        ]
        rows.append((words, f"{n['n_episodes']:,}", f"{n['n_steps']:,}", *end))
    about = (
        "scene",
        "mean of Q",
        "spread of the members",
        "best minus worst action",
        "as expected",
    )
    seen = [
        (
            f"{kind}: {words}",
            number(q["level"], ".1f"),
            number(q["spread"], ".2f"),
            number(q["apart"], ".2f"),
            f"{100 * q['right']:.0f} %" if kind == "A" else "",
        )
        for kind, words in KINDS.items()
        for q in [numbers["anchored"]["scenes"][kind]]
    ]
    return [
        Table(_TITLE.format(last=record["settings"]["n_last"]), header, rows),
        Table("What the anchored agent thinks: medians over 20 scenes of each kind", about, seen),
    ]


EXPERIMENT = Experiment(
    ABOUT, PRESETS, plan, combine, findings, tables, rl_push_drawing.draw, (8, 7.5)
)
