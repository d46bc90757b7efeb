"""A safetensors file with a JSON text beside its arrays; nothing in it is used before it is
checked.

The text is in the metadata, under "anchored". Beside it is the SHA-256 of text and tensors, which
detects accidental damage. It does not detect malice, so every value is also checked when it is
read. `Fields` and `Arrays` return each value once, by name, and check its type and shape; values
that nothing asked for are errors. Nothing is unpickled or evaluated, and the length of the file
limits the memory that is used.
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
from anchored._json import Fields, parsed, quoted
from anchored.errors import ModelFileError

_TEXT, _DIGEST = "anchored", "sha256"  # keys of the metadata
_LENGTH_BYTES = 8  # a file starts with the length of its header
_MAX_HEADER = 4 << 20  # bytes; a wide table with many categories takes some hundred thousand
_MAX_FILE = 1 << 30
_SHORT = "BF16"  # read as float32
_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
AGAIN = "Save the model again, or copy the file again from where it came."


def write(
    path: str | Path, fields: dict, arrays: dict[str, np.ndarray], short: Collection[str] = ()
) -> None:
    """Write the file whole or not at all; see `packed`."""
    write_whole(Path(path), packed(fields, arrays, short))


def packed(fields: dict, arrays: dict[str, np.ndarray], short: Collection[str] = ()) -> bytes:
    """The content of a file; ``fields`` is what JSON can hold.

    ``short`` are names of float32 arrays whose values bfloat16 can represent; they are written as
    bfloat16.
    """
    text = json.dumps(fields, allow_nan=False)
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = _serialised(arrays, {_TEXT: text, _DIGEST: _digest(text, arrays)}, short)
    if int.from_bytes(content[:_LENGTH_BYTES], "little") > _MAX_HEADER:
        raise ValueError(
            f"`encoder` and `provenance` take more than {_MAX_HEADER:,} bytes as text; leave out "
            "what a model does not need."
        )
    if len(content) > _MAX_FILE:
        raise ValueError(f"The model takes {len(content):,} bytes; the limit is {_MAX_FILE:,}.")
    return content


def _serialised(
    arrays: dict[str, np.ndarray], metadata: dict[str, str], short: Collection[str] = ()
) -> bytes:
    """The content of a file, the same bytes for the same arrays and text.

    `safetensors.numpy.save` puts the metadata in an order of its own every time.
    """
    names = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": metadata}
    parts, end = [], 0
    # Types of eight bytes first, of two bytes last: every array is aligned then.
    for name in sorted(arrays, key=lambda name: (name in short, -arrays[name].itemsize, name)):
        array = arrays[name]
        if array.dtype not in names:
            raise TypeError(
                f"{quoted(name)} has type {array.dtype}; files can store {list(_DTYPES)}."
            )
        kind = _SHORT if name in short else names[array.dtype]
        written = _shortened(name, array) if name in short else array
        parts.append(written.astype(written.dtype.newbyteorder("<"), copy=False).tobytes())
        start, end = end, end + len(parts[-1])
        about = {"dtype": kind, "shape": array.shape, "data_offsets": [start, end]}
        header[name] = about
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + b"".join(parts)


def read(path: str | Path) -> "tuple[Fields, Arrays]":
    """Fields and arrays of a file made by `write`; a `ModelFileError` says what is wrong."""
    try:
        content = _read_bytes(Path(path))
    except OSError as error:
        raise ModelFileError(f"it cannot be read ({error.strerror}).") from error
    return unpacked(content)


def unpacked(content: bytes) -> "tuple[Fields, Arrays]":
    """Fields and arrays of a content made by `packed`."""
    try:
        metadata = _metadata(content)
        tensors = dict(deserialize(content))
    except SafetensorError as error:
        raise ModelFileError(f"its tensors are damaged ({error}). {AGAIN}") from error
    text = metadata.get(_TEXT)
    if text is None:
        raise ModelFileError(
            "it is a safetensors file of another program. Give one that `save` of anchored wrote."
        )
    fields = Fields(_parsed(text), wrong=lambda _, sentence: ModelFileError(sentence))
    arrays = {name: _array(name, **tensor) for name, tensor in tensors.items()}
    if set(metadata) != {_TEXT, _DIGEST} or metadata[_DIGEST] != _digest(text, arrays):
        raise ModelFileError(f"it was changed or damaged after it was written. {AGAIN}")
    return fields, Arrays(arrays)


def _read_bytes(path: Path) -> bytes:
    """The content, once lengths belong together."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError("it is not a regular file. Give the path of a model file.")
        if status.st_size > _MAX_FILE:
            raise ModelFileError(f"it is larger than {_MAX_FILE:,} bytes, the limit for a model.")
        start = file.read(_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        if len(start) < _LENGTH_BYTES or not 0 < length <= status.st_size - _LENGTH_BYTES:
            raise ModelFileError(f"it is cut short, or it is not a model file. {AGAIN}")
        if length > _MAX_HEADER:
            raise ModelFileError(f"its header has more than {_MAX_HEADER:,} bytes. {AGAIN}")
        return start + file.read(status.st_size - _LENGTH_BYTES)


def _metadata(content: bytes) -> dict:
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = _parsed(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _parsed(text: str | bytes) -> Any:
    try:
        return parsed(text)
    except ValueError as error:
        raise ModelFileError(f"its text is not JSON. {AGAIN}") from error


def _shortened(name: str, array: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, whose lower ones must be zero."""
    bits = array.view(np.uint32)
    if np.any(bits & 0xFFFF):
        raise ValueError(f"{quoted(name)} has values that bfloat16 cannot represent.")
    return (bits >> 16).astype(np.uint16)


def _array(name: str, shape: list[int], dtype: str, data: bytearray) -> np.ndarray:
    if dtype == _SHORT:
        halves = np.frombuffer(data, np.dtype(np.uint16).newbyteorder("<")).astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(shape)
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


class Arrays:
    """The tensors, taken once each."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self._left = dict(arrays)

    def take(
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtype: type | None = np.float64,
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
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if array.dtype != wanted or not fits:
            raise ModelFileError(
                f"the tensor `{name}` is {array.dtype.name} of shape {array.shape}; it must be "
                f"{wanted.name} of shape {shape}."
            )
        if finite and not np.all(np.isfinite(array) & (array >= least) & (array > above)):
            raise ModelFileError(f"the tensor `{name}` has values that are impossible there.")
        return array

    def optional(self, name: str, shape: tuple[int | None, ...], **rules) -> np.ndarray | None:
        return self.take(name, shape, **rules) if name in self._left else None

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def below(self, where: str) -> dict[str, tuple[int, ...]]:
        """Paths below ``where``, and the shape of each tensor."""
        return {
            name.removeprefix(where): array.shape
            for name, array in self._left.items()
            if name.startswith(where)
        }

    def take_inputs(self, name: str, n_rows: int, n_features: int) -> np.ndarray:
        """Inputs [row, feature, ...] of any rank, of real or whole numbers."""
        found = self._left.get(name, np.empty(0))
        shape = (n_rows, n_features, *found.shape[2:])
        return self.take(name, shape, np.int64 if found.dtype == np.int64 else np.float64)

    def close(self) -> None:
        """Raise an error if any value has not been taken."""
        if self._left:
            raise ModelFileError(f"the tensor {quoted(next(iter(self._left)))} is not known.")
