"""The file of a model: one safetensors file, of which nothing is believed before it is checked.

Arrays are tensors. All the rest is one JSON text in the metadata, under "anchored"; beside it is
the SHA-256 of text and tensors, which finds accidents. It does not find malice, so every value is
also checked when it is taken: `Fields` and `Arrays` hand each out once, by name, for the type and
shape that must be there, and tell of those nobody asked for. Nothing is unpickled or evaluated,
and no memory is taken that the length of the file does not account for.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from anchored._files import write_whole
from anchored.errors import ModelFileError

FORMAT = 1
_TEXT, _DIGEST = "anchored", "sha256"  # keys of the metadata
_LENGTH_BYTES = 8  # a file starts with the length of its header
_MAX_HEADER = 4 << 20  # bytes; a wide table with many categories takes some hundred thousand
_MAX_FILE = 1 << 30
_MAX_WHOLE = 2**40
_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
_AGAIN = "Save the model again, or copy the file again from where it came."


def write(path: str | Path, fields: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write the file whole or not at all; ``fields`` is what JSON can hold."""
    from safetensors.numpy import save

    text = json.dumps({"format": FORMAT, **fields}, allow_nan=False)
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = save(arrays, {_TEXT: text, _DIGEST: _digest(text, arrays)})
    if int.from_bytes(content[:_LENGTH_BYTES], "little") > _MAX_HEADER:
        raise ValueError(
            f"`encoder` and `provenance` take more than {_MAX_HEADER:,} bytes as text; leave out "
            "what a model does not need."
        )
    if len(content) > _MAX_FILE:
        raise ValueError(f"The model takes {len(content):,} bytes; a file holds {_MAX_FILE:,}.")
    write_whole(Path(path), content)


def read(path: str | Path) -> "tuple[Fields, Arrays]":
    """Fields and arrays of a file made by `write`; a `ModelFileError` says what is wrong."""
    try:
        content = _read_bytes(Path(path))
        metadata = _metadata(content)
        tensors = dict(deserialize(content))
    except SafetensorError as error:
        raise ModelFileError(f"its tensors are damaged ({error}). {_AGAIN}") from error
    except OSError as error:
        raise ModelFileError(f"it cannot be read ({error.strerror}).") from error
    text = metadata.get(_TEXT)
    if text is None:
        raise ModelFileError(
            "it is a safetensors file of another program. Give one that `save` of anchored wrote."
        )
    fields = Fields(_parsed(text))
    _check_format(fields)
    arrays = {name: _array(name, **tensor) for name, tensor in tensors.items()}
    if set(metadata) != {_TEXT, _DIGEST} or metadata[_DIGEST] != _digest(text, arrays):
        raise ModelFileError(f"it was changed or damaged after it was written. {_AGAIN}")
    return fields, Arrays(arrays)


def _read_bytes(path: Path) -> bytes:
    """The content, once lengths belong together."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError("it is not a regular file. Give the path of a model file.")
        if status.st_size > _MAX_FILE:
            raise ModelFileError(f"it is larger than {_MAX_FILE:,} bytes, the most a model takes.")
        start = file.read(_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        if len(start) < _LENGTH_BYTES or not 0 < length <= status.st_size - _LENGTH_BYTES:
            raise ModelFileError(f"it is cut short or of another kind. {_AGAIN}")
        if length > _MAX_HEADER:
            raise ModelFileError(f"its header has more than {_MAX_HEADER:,} bytes. {_AGAIN}")
        return start + file.read(status.st_size - _LENGTH_BYTES)


def _metadata(content: bytes) -> dict:
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = _parsed(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"its text is not JSON. {_AGAIN}") from error


def _check_format(fields: "Fields") -> None:
    number, version = fields.whole("format"), fields.text("package")
    if number > FORMAT:
        raise ModelFileError(
            f"it has format {number}, written by anchored {version}; this one reads up to format "
            f"{FORMAT}. Upgrade anchored."
        )
    if number < FORMAT:
        raise ModelFileError(f"there is no format {number}. {_AGAIN}")
    fields.put_back("package", version)


def _array(name: str, shape: list[int], dtype: str, data: bytearray) -> np.ndarray:
    if dtype not in _DTYPES:
        raise ModelFileError(f"{quoted(name)} has type {dtype}, not one of {', '.join(_DTYPES)}.")
    return np.frombuffer(data, np.dtype(_DTYPES[dtype]).newbyteorder("<")).reshape(shape)


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name}|{array.dtype.name}|{array.shape}|".encode("utf-8", "surrogatepass"))
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def quoted(value: object) -> str:
    """A value of the file for a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def whole_number(value: object, least: int = 0, most: int = _MAX_WHOLE) -> bool:
    return type(value) is int and least <= value <= most


class Fields:
    """An object of the JSON text whose fields are taken once each."""

    def __init__(self, value: Any, where: str = ""):
        if not isinstance(value, dict):
            raise ModelFileError(f"`{where or _TEXT}` must be an object, not {quoted(value)}.")
        self._left, self._where = dict(value), where

    def take(self, name: str) -> Any:
        if name not in self._left:
            raise ModelFileError(f"`{self._where}{name}` is missing.")
        return self._left.pop(name)

    def put_back(self, name: str, value: Any) -> None:
        self._left[name] = value

    def wrong(self, name: str, got: object, need: str) -> ModelFileError:
        return ModelFileError(f"`{self._where}{name}` must be {need}, not {quoted(got)}.")

    def object(self, name: str) -> "Fields":
        return Fields(self.take(name), f"{self._where}{name}/")

    def optional_object(self, name: str) -> "Fields | None":
        value = self.take(name)
        return None if value is None else Fields(value, f"{self._where}{name}/")

    def plain_object(self, name: str) -> dict:
        """An object whose content is not looked at here."""
        value = self.take(name)
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return value

    def optional_plain_object(self, name: str) -> dict | None:
        return self.take(name) if self._left.get(name, 0) is None else self.plain_object(name)

    def objects(self, name: str) -> "list[Fields] | None":
        """Several objects, or None."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list or null")
        return [Fields(item, f"{self._where}{name}/{i}/") for i, item in enumerate(value)]

    def text(self, name: str, allowed: Collection[str] | None = None) -> str:
        value = self.take(name)
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            raise self.wrong(name, value, "text" if allowed is None else f"in {list(allowed)}")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Several texts, or None."""
        value = self.take(name)
        if value is None:
            return None
        if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise self.wrong(name, value, "a list of texts or null")
        return tuple(value)

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def whole(self, name: str, least: int = 0) -> int:
        value = self.take(name)
        if not whole_number(value, least):
            raise self.wrong(name, value, f"a whole number from {least} on")
        return value

    def wholes(self, name: str, least: int = 0, most_items: int | None = None) -> tuple[int, ...]:
        value = self.take(name)
        if not (isinstance(value, list) and all(whole_number(item, least) for item in value)):
            raise self.wrong(name, value, f"a list of whole numbers from {least} on")
        if most_items is not None and len(value) > most_items:
            raise self.wrong(name, value, f"a list of at most {most_items}")
        return tuple(value)

    def number(self, name: str, above: float = -math.inf, most: float = math.inf) -> float:
        value = self.take(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Whole numbers of JSON may be too large for a float.
        if not (is_number and abs(value) < 1e300 and above < value <= most):
            raise self.wrong(name, value, f"a number above {above:g} and at most {most:g}")
        return float(value)

    def optional_number(self, name: str, above: float = -math.inf) -> float | None:
        if self._left.get(name, 0) is None:
            return self.take(name)
        return self.number(name, above)

    def close(self) -> None:
        """Nothing may be left."""
        if self._left:
            raise ModelFileError(f"`{self._where}{quoted(next(iter(self._left)))}` is not known.")


class Arrays:
    """The tensors, taken once each."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self._left = dict(arrays)

    def take(
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtype: type = np.float64,
        *,
        least: float = -math.inf,
        above: float = -math.inf,
        finite: bool = True,
    ) -> np.ndarray:
        """The array of this type and shape (None: of any length) with values in a range."""
        if name not in self._left:
            raise ModelFileError(f"the tensor `{name}` is missing.")
        array = self._left.pop(name)
        fits = array.ndim == len(shape) and all(
            want in (None, got) for want, got in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ModelFileError(
                f"the tensor `{name}` is {array.dtype.name} of shape {array.shape}; it must be "
                f"{np.dtype(dtype).name} of shape {shape}."
            )
        if finite and not np.all(np.isfinite(array) & (array >= least) & (array > above)):
            raise ModelFileError(f"the tensor `{name}` has values that are impossible there.")
        return array

    def optional(self, name: str, shape: tuple[int | None, ...], **rules) -> np.ndarray | None:
        return self.take(name, shape, **rules) if name in self._left else None

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take_inputs(self, name: str, n_rows: int, n_features: int) -> np.ndarray:
        """Inputs [row, feature, ...] of any rank, of real or whole numbers."""
        found = self._left.get(name, np.empty(0))
        shape = (n_rows, n_features, *found.shape[2:])
        return self.take(name, shape, np.int64 if found.dtype == np.int64 else np.float64)

    def close(self) -> None:
        """Nothing may be left."""
        if self._left:
            raise ModelFileError(f"the tensor {quoted(next(iter(self._left)))} is not known.")
