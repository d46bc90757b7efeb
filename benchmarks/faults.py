"""Kill ``anchored fit`` at random moments, start it again: is the model the same to the last bit?

    python -m benchmarks.faults --kills 200

A run is started, killed by SIGKILL after a random part of the time that an undisturbed run takes,
and started again, until it ends. Then the next round begins, until there were as many kills. Every
model is compared with the undisturbed one. The work lost is the time between a kill and the newest
checkpoint of the run that was killed; one that had none loses the choice of its prior.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from anchored._files import write_whole
from anchored.core.checkpoints import INTERVAL

RECORD = Path(__file__).parent / "results" / "faults.json"
_COMMAND = (sys.executable, "-c", "from anchored.cli import app; app()")


def write_table(path: Path, n_rows: int, n_columns: int = 8) -> None:
    """Numbers, a category and gaps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, n_columns))
    kind = rng.choice(["a", "b", "c"], n_rows)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * (kind == "a") + 0.3 * rng.normal(size=n_rows)
    names = [*(f"x{i}" for i in range(n_columns)), "kind", "y"]
    gaps = rng.random(n_rows) < 0.1
    lines = [",".join(names)]
    for i in range(n_rows):
        numbers = [f"{v:.6f}" for v in x[i]]
        numbers[2] = "" if gaps[i] else numbers[2]
        lines.append(",".join([*numbers, kind[i], f"{y[i]:.6f}"]))
    path.write_text("\n".join(lines) + "\n")


def command(table: Path, out: Path, members: int) -> list[str]:
    given = ["fit", str(table), "--target", "y", "--out", str(out), "--n-members", str(members)]
    return [*_COMMAND, *given, "--json"]


def run_to_end(table: Path, out: Path, members: int) -> float:
    """Seconds of a run that nobody kills."""
    started = time.perf_counter()
    subprocess.run(command(table, out, members), check=True, capture_output=True)
    return time.perf_counter() - started


def newest_checkpoint(out: Path) -> float | None:
    """When the newest checkpoint was written."""
    times = [path.stat().st_mtime for path in out.glob(".checkpoint/*.safetensors")]
    return max(times, default=None)


def killed_run(table: Path, out: Path, members: int, after: float) -> tuple[bool, float | None]:
    """Whether it was killed before its end, and the seconds between its checkpoint and the kill.

    None if this run had not written one.
    """
    started = time.time()
    process = subprocess.Popen(
        command(table, out, members), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, err = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kept = newest_checkpoint(out)
        return True, None if kept is None or kept < started else time.time() - kept
    if process.returncode:
        raise RuntimeError(f"A run failed: {err.decode()}")
    return False, None


def same_model(one: Path, other: Path) -> bool:
    return (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def leftovers(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if path.name.startswith("."))


def faults(n_kills: int, n_rows: int, members: int, seconds: float, seed: int = 0) -> dict:
    """Kills until there are ``n_kills`` or the time is up; the last round is always finished."""
    rng, ended = np.random.default_rng(seed), time.perf_counter() + seconds
    with tempfile.TemporaryDirectory() as folder:
        table, clean, out = (Path(folder) / name for name in ("table.csv", "clean", "killed"))
        write_table(table, n_rows)
        run_to_end(table, clean, members)  # compiles
        shutil.rmtree(clean)
        takes = run_to_end(table, clean, members)
        kills = rounds = same = 0
        lost, unclean = [], 0
        while kills < n_kills and time.perf_counter() < ended:
            finished = False
            while not finished:
                more = kills < n_kills and time.perf_counter() < ended
                after = rng.uniform(0, takes) if more else 1e6
                killed, since = killed_run(table, out, members, after)
                kills += killed
                finished = not killed
                if since is not None:
                    lost.append(since)
            rounds += 1
            same += same_model(clean, out)
            unclean += bool(leftovers(out))
            shutil.rmtree(out)
    return {
        "kills": kills,
        "rounds": rounds,
        "same_models": same,
        "rounds_with_leftovers": unclean,
        "undisturbed_seconds": takes,
        "kills_after_a_checkpoint": len(lost),
        "median_seconds_since_checkpoint": float(np.median(lost)) if lost else None,
        "most_seconds_since_checkpoint": float(np.max(lost)) if lost else None,
        "interval": INTERVAL,
        "rows": n_rows,
        "members": members,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop killing after this long")
    given = parser.parse_args()
    found = faults(given.kills, given.rows, given.members, given.seconds)
    print(json.dumps(found, indent=2))
    runs = json.loads(RECORD.read_text()) if RECORD.exists() else []
    write_whole(RECORD, (json.dumps([*runs, found], indent=2) + "\n").encode())
    if found["same_models"] < found["rounds"] or found["rounds_with_leftovers"]:
        sys.exit("A model differs from the undisturbed one, or files were left.")


if __name__ == "__main__":
    main()
