"""Pictures of the robot arm, if a GL backend is available."""

import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchored.rl.environments.fetch_push import UNIT, fetch_push

_BACKENDS = ("egl", "osmesa")  # neither needs a screen
_SECONDS = 60.0


def pictures(scenes: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """A picture [height, width, 3] of each scene (inputs [4] of the agent); None without GL.

    It runs in a separate process, because MuJoCo reads the name of its backend when it is first
    loaded.
    """
    context = multiprocessing.get_context("spawn")
    for backend in _BACKENDS:
        ours, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(theirs, backend, list(scenes)), daemon=True)
        worker.start()
        theirs.close()
        try:
            found = ours.recv() if ours.poll(_SECONDS) else None
        except EOFError:
            found = None
        worker.join(1.0)
        if worker.is_alive():
            worker.terminate()
        if found is not None:
            return found
    return None


def _work(pipe, backend: str, scenes: list[np.ndarray]) -> None:
    os.environ["MUJOCO_GL"] = backend
    try:
        env = fetch_push(render_mode="rgb_array")
        pipe.send([_picture(env, scene) for scene in scenes])
    except Exception:  # whatever is missing: there is no picture
        pipe.send(None)


def _picture(env: Any, scene: np.ndarray) -> np.ndarray:
    env.reset(seed=0)
    inner = env.unwrapped
    name, apart = "object0:joint", UNIT * np.asarray(scene, float)
    place = inner._utils.get_joint_qpos(inner.model, inner.data, name)
    place[:2] = inner.initial_gripper_xpos[:2] + apart[:2]
    inner._utils.set_joint_qpos(inner.model, inner.data, name, place)
    inner.goal = np.array([*(place[:2] + apart[2:]), inner.height_offset])
    inner._mujoco.mj_forward(inner.model, inner.data)
    return np.asarray(env.render())
