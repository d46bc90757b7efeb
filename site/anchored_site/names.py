"""Every public name of the package, found by rule and not by hand.

A module is public if users are sent to it: `anchored` itself, the modules that it offers by name
(`anchored.gp`), and the packages listed here. A name is public if the module lists it, or defines
it without a leading underscore.
"""

import importlib
import importlib.util
import inspect
from types import ModuleType
from typing import Any, NamedTuple

import anchored

PACKAGES = (
    "metrics",
    "datasets",
    "datasets.shifts",
    "baselines",
    "tuning",
    "rl",
    "decisions",
    "cluster",
    "serving",
    "typing",
    "errors",
)


class Public(NamedTuple):
    """A public name: where users find it, and what it is."""

    module: str
    name: str
    value: Any

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def kind(self) -> str:
        """class, exception, function or data."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if callable(self.value) else "data"


def modules() -> dict[str, ModuleType]:
    """The public modules by the name that users write."""
    found = {"anchored": anchored}
    for name, home in sorted(anchored._MODULES.items()):
        found[f"anchored.{name}"] = importlib.import_module(f"anchored.{home}")
    for name in PACKAGES:
        if _exists(f"anchored.{name}"):
            found[f"anchored.{name}"] = importlib.import_module(f"anchored.{name}")
    return found


def _exists(dotted: str) -> bool:
    try:
        return importlib.util.find_spec(dotted) is not None
    except ModuleNotFoundError:
        return False


def public(module: str, source: ModuleType) -> list[Public]:
    """The public names of a module, in alphabetical order."""
    listed = getattr(source, "__all__", None)
    names = listed if listed is not None else [n for n in vars(source) if _offered(source, n)]
    return [Public(module, name, getattr(source, name)) for name in sorted(names, key=str.lower)]


def _offered(source: ModuleType, name: str) -> bool:
    value = getattr(source, name)
    if name.startswith("_") or inspect.ismodule(value):
        return False
    home = getattr(value, "__module__", None)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    package = source.__name__ if hasattr(source, "__path__") else None
    if package == "anchored.tuning":  # which offers what it takes from `anchored.exact`
        return str(home).startswith("anchored.")
    return home == source.__name__ or bool(package and str(home).startswith(f"{package}."))


def everything() -> list[Public]:
    """All public names of all public modules."""
    return [found for name, source in modules().items() for found in public(name, source)]


def protocols() -> list[type]:
    """What implementations are written against; their methods need no words of their own."""
    from anchored import typing
    from anchored.rl import planning
    from anchored.rl.environments import pure

    return [
        typing.Network,
        typing.Likelihood,
        pure.PureEnvironment,
        pure.ContinuousEnvironment,
        planning.Planner,
    ]


def described(owner: type, name: str) -> str | None:
    """The docstring of a method: its own, or that of the protocol it implements."""
    own = inspect.getdoc(inspect.getattr_static(owner, name)) or inspect.getdoc(
        getattr(owner, name)
    )
    if own:
        return own
    for protocol in protocols():
        if name in vars(protocol):
            return inspect.getdoc(getattr(protocol, name))
    return None


def methods(owner: type) -> list[str]:
    """Names of the public methods and properties that this package gave a class."""
    found = []
    for name, value in inspect.getmembers_static(owner):
        if name.startswith("_"):
            continue
        function = inspect.unwrap(_function(value)) if _function(value) else None
        if function is not None and str(function.__module__).startswith("anchored."):
            found.append(name)
    return found


def is_property(owner: type, name: str) -> bool:
    value = inspect.getattr_static(owner, name)
    return not isinstance(value, (classmethod, staticmethod)) and not inspect.isfunction(value)


def _function(value: Any) -> Any:
    if isinstance(value, property):
        return value.fget
    if isinstance(value, (classmethod, staticmethod)):
        return value.__func__
    return value if inspect.isfunction(value) else getattr(value, "func", None)


def undocumented() -> list[str]:
    """Public names, and methods of public classes, that have no docstring of their own."""
    missing = []
    for found in everything():
        if not (
            found.value.__dict__.get("__doc__") if found.kind == "class" else found.value.__doc__
        ):
            missing.append(found.dotted)
        if found.kind == "class":
            missing += [
                f"{found.dotted}.{name}"
                for name in methods(found.value)
                if not described(found.value, name)
            ]
    return missing


def without_example() -> list[str]:
    """Names that `anchored` itself offers, and metrics, whose docstrings show no use."""
    return [
        found.dotted
        for found in everything()
        if found.module in ("anchored", "anchored.metrics")
        and found.kind in ("class", "function")
        and ">>> " not in (inspect.getdoc(found.value) or "")
    ]
