"""Streams of Arrow batches from clients that are not trusted.

Arrow checks what it reads, on request. A small body could still use much memory in two ways, which
are checked here: compressed buffers, and one long text that many rows point to.
"""

import struct
from typing import Any

import numpy as np

from anchored.serving.limits import Limits, Refusal, too_many_rows
from anchored.tables import arrow

_EXPANDED = 8  # times the bytes of a body that its text may take, each cell written out


def read(body: bytes, limits: Limits) -> Any:
    """The table of a stream, checked."""
    pa = arrow.pyarrow()
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            if _compressed(message.metadata.to_pybytes()):
                raise Refusal(
                    415, "the buffers of the Arrow stream are compressed; send them uncompressed."
                )
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            batches, n_rows = [], 0
            for batch in reader:
                n_rows += batch.num_rows
                if n_rows > limits.max_rows:
                    raise too_many_rows(n_rows, limits.max_rows)
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise Refusal(400, f"the body is not a stream of Arrow batches: {reason}.") from None
    if not n_rows:
        raise Refusal(400, "the Arrow stream has no rows; send at least one.")
    return table


def write(columns: dict[str, Any]) -> bytes:
    """Columns of predictions as a stream of one batch."""
    pa = arrow.pyarrow()
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def check_size(table: Any, limits: Limits) -> None:
    """Refuse text that takes far more memory than the body has bytes."""
    total = sum(_text_bytes(column) for column in table.columns)
    if total > _EXPANDED * limits.max_bytes:
        raise Refusal(
            413,
            f"the text of the rows takes {total:,} bytes, and at most "
            f"{_EXPANDED * limits.max_bytes:,} are allowed. Send the rows in several requests.",
        )


def _text_bytes(column: Any) -> int:
    pa = arrow.pyarrow()
    is_a, total = pa.types, 0
    for chunk in column.chunks:
        values, codes = chunk, None
        if is_a.is_dictionary(chunk.type):
            values, codes = chunk.dictionary, chunk.indices.drop_null()
        if is_a.is_string_view(values.type):
            lengths = np.array([len(cell.as_buffer()) if cell.is_valid else 0 for cell in values])
        elif is_a.is_string(values.type) or is_a.is_large_string(values.type):
            lengths = np.asarray(pa.compute.binary_length(values).fill_null(0))
        else:
            continue
        total += int((lengths if codes is None else lengths[np.asarray(codes)]).sum())
    return total


# A message starts with a table of FlatBuffers, ``Message`` of Arrow's Message.fbs.

_HEADER_TYPE, _HEADER = 1, 2  # fields of it
_DICTIONARY, _BATCH = 2, 3  # header types
_DICTIONARY_DATA, _COMPRESSION = 1, 3  # fields of the headers


def _compressed(metadata: bytes) -> bool:
    root = struct.unpack_from("<I", metadata)[0]
    place = _field(metadata, root, _HEADER_TYPE)
    kind = metadata[place] if place else 0
    place = _field(metadata, root, _HEADER)
    if kind not in (_DICTIONARY, _BATCH) or not place:
        return False
    header = place + struct.unpack_from("<I", metadata, place)[0]
    if kind == _DICTIONARY:
        place = _field(metadata, header, _DICTIONARY_DATA)
        if not place:
            return False
        header = place + struct.unpack_from("<I", metadata, place)[0]
    return _field(metadata, header, _COMPRESSION) != 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 if it is left out."""
    entries = table - struct.unpack_from("<i", metadata, table)[0]
    (size,) = struct.unpack_from("<H", metadata, entries)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, entries + 4 + 2 * number)
    return table + offset if offset else 0
