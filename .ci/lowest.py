"""Print the lowest versions that pyproject.toml claims, as constraints for pip.

What users install counts: the dependencies and the extras. Those of tests, benchmarks and the site
do not.
"""

import re
import tomllib
from pathlib import Path

NOT_FOR_USERS = {"all", "outsiders", "site", "test", "torch"}


def lowest(pyproject: str) -> list[str]:
    """Lines ``name==version``, one for each lower bound."""
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"].items()
    wanted = [r for name, group in extras if name not in NOT_FOR_USERS for r in group]
    return [_pinned(requirement) for requirement in [*project["dependencies"], *wanted]]


def _pinned(requirement: str) -> str:
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)(?:,<[\w.]+)?", requirement)
    if found is None:
        raise ValueError(f"pyproject.toml: {requirement!r} must have a lower bound.")
    return f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    print(*lowest(text), sep="\n")
