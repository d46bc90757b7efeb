"""Training of members by workers, in chunks; `anchored.core.chunks` explains the protocol."""

from typing import TYPE_CHECKING, Any

from anchored.cluster.executor import LocalExecutor as LocalExecutor
from anchored.errors import bad_value
from anchored.typing import Executor

if TYPE_CHECKING:
    from anchored.cluster.ray import RayExecutor as RayExecutor

_RAY = "ray"


def __getattr__(name: str) -> Any:
    if name != "RayExecutor":
        raise AttributeError(f"module 'anchored.cluster' has no attribute {name!r}")
    from anchored.cluster.ray import RayExecutor

    return RayExecutor


def as_executor(given: Any) -> Executor | None:
    """An executor, given as an object or by its name: "ray" or "ray://host:port"."""
    if given is None or (hasattr(given, "map") and hasattr(given, "chunk")):
        return given
    if given == _RAY or (isinstance(given, str) and given.startswith(f"{_RAY}://")):
        from anchored.cluster.ray import RayExecutor

        return RayExecutor(address=None if given == _RAY else given)
    raise bad_value("executor", given, 'None, "ray", "ray://host:port" or an executor')
