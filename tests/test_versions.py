"""The versions that pyproject.toml claims, and those that constraints.txt pins."""

import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
lowest = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["lowest"]


def test_the_lowest_versions_are_the_lower_bounds():
    lines = lowest(PYPROJECT)
    project = tomllib.loads(PYPROJECT)["project"]
    assert {Requirement(line).name for line in lines} > {
        Requirement(line).name for line in project["dependencies"]
    }
    for line in lines:
        assert line.replace("==", ">=") in PYPROJECT
    with pytest.raises(ValueError, match="'numpy<3' must have a lower bound"):
        lowest('[project]\ndependencies = ["numpy<3"]\n[project.optional-dependencies]')


def test_pinned_versions_are_allowed():
    """Each package that pyproject.toml names is pinned, unless only benchmarks use it."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    pinned = {canonicalize_name(name): v for name, v in (line.split("==") for line in lines)}
    project = tomllib.loads(PYPROJECT)["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in extras if name != "outsiders")]
    for requirement in map(Requirement, [line for group in groups for line in group]):
        if requirement.name != "anchored":
            assert pinned[canonicalize_name(requirement.name)] in requirement.specifier
