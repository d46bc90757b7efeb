"""What CONTRIBUTING says of the layers is what the linter's contracts and the imports say."""

import ast
import functools
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
EVERYWHERE = {"jax", "numpy", "scipy"}


def contract(name):
    return next(found for found in CONTRACTS if found["name"] == name)


@functools.cache
def imports():
    """The modules that import each outside package."""
    found = {}
    for path in (ROOT / "src/anchored").rglob("*.py"):
        parts = path.relative_to(ROOT / "src/anchored").with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for package in {name.split(".")[0] for name in names}:
                if package not in sys.stdlib_module_names and package != "anchored":
                    found.setdefault(package, set()).add(module)
    return found


def homes():
    """The homes of each package in the table of the page."""
    table = PAGE.split("| package | imported in |")[1].split("\n\n")[0]
    rows = [re.findall(r"`([\w.]+)`", cell) for cell in table.replace("\n", "").split("|")]
    rows = [names for names in rows if names]
    return {p: set(where) for p_s, where in zip(*[iter(rows)] * 2, strict=True) for p in p_s}


def test_the_picture_of_the_layers_is_the_linter_s():
    picture = re.search(r"^```\n(cli\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE).group(1)
    layers = contract("imports go only downwards")["layers"]
    assert picture.splitlines() == [line.replace("anchored.", "") for line in layers]


def test_every_folder_is_a_layer_or_beside_them():
    beside = contract("side leaves see only the bottom layers")["source_modules"]
    said = PAGE.split(" are beside the layers")[0].split("\n\n")[-1]
    assert re.findall(r"`(\w+)`", said) == [name.removeprefix("anchored.") for name in beside]
    layers = "|".join(contract("imports go only downwards")["layers"])
    known = {name.strip() for name in layers.split("|")} | set(beside)
    source = ROOT / "src/anchored"
    found = {f"anchored.{path.parent.name}" for path in source.glob("*/__init__.py")}
    found |= {f"anchored.{path.stem}" for path in source.glob("*.py") if path.stem != "__init__"}
    assert known == found
    table = PAGE.split("| folder | what it contains |")[1].split("\n\n")[0]
    described = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\|[^|]*\|", table, re.M))))
    assert {f"anchored.{name}" for name in described} | set(beside) == {
        name for name in found if (source / name.removeprefix("anchored.")).is_dir()
    }


@pytest.mark.parametrize("package", sorted(imports().keys() - EVERYWHERE))
def test_outside_packages_are_imported_at_home_alone(package):
    where = homes()[package]
    for module in imports()[package]:
        assert any(f"{module}.".startswith(f"{home}.") for home in where), f"{module} is no home"
    for home in where:
        assert any(f"{module}.".startswith(f"{home}.") for module in imports()[package]), home


def test_the_table_names_no_package_that_nothing_imports():
    assert homes().keys() == imports().keys() - EVERYWHERE
