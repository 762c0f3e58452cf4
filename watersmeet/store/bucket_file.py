"""The file of a bucket: the rows, sections aligned to 64 bytes, a JSON directory of them, its length, a magic word.

The rows are an Arrow stream. A section may be a part of them: `tau` is, where a column has the same values.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from watersmeet import points
from watersmeet.errors import StateError, restore_hint
from watersmeet.home.files import make_private, private
from watersmeet.home.manifest import BucketInfo
from watersmeet.store.codes import whole_numbers
from watersmeet.store.kernels import I64

MAGIC = b"WMBUCKT2"
_BEFORE = b"WMBUCKT1"  # its indexes were not packed; they are made again
_ALIGN = 64
_TAIL = struct.Struct("<I8s")


def damaged(path: Path, why: str) -> StateError:
    return StateError(
        f"the state file {path} is damaged: {why}",
        detail="The engine does not start with damaged state. Nothing was changed.",
        hint=restore_hint("the file"),
    )


def read_file(path: Path, size: int) -> tuple[pa.RecordBatch, dict[str, np.ndarray], bool]:
    """The rows and sections of a file that has so many bytes, mapped; and whether its indexes are as they are now."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise damaged(path, f"it has {found} bytes, the manifest has {size}")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    length, magic = _TAIL.unpack(mapped[size - _TAIL.size :])
    if magic not in (MAGIC, _BEFORE):
        raise damaged(path, "it does not have the end of a bucket file")
    directory = json.loads(mapped[size - _TAIL.size - length : size - _TAIL.size])
    whole = pa.py_buffer(mapped)
    begin, stop = directory["rows"]
    (rows,) = pa.ipc.open_stream(pa.BufferReader(whole.slice(begin, stop - begin)))
    sections = {
        name: np.frombuffer(whole.slice(begin, stop - begin), dtype) if stop > begin else np.empty(0, dtype)
        for name, (dtype, begin, stop) in directory["sections"].items()
    }
    return rows, sections, magic == MAGIC


def write_file(path: Path, rows: pa.RecordBatch, sections: dict[str, np.ndarray]) -> tuple[int, int]:
    make_private(path.parent)
    with open(path, "xb", opener=private) as opened:
        file = _Checked(opened, _same_memory(rows, sections["tau"]))
        with pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_batch(rows)
        directory: dict[str, Any] = {"rows": (0, file.position), "sections": {}}
        points.reach("bucket.write", path)
        for name, array in sections.items():
            if name == "tau" and file.found is not None:
                begin = file.found
            else:
                begin = file.align() if len(array) else file.position
                file.write(np.ascontiguousarray(array))
            directory["sections"][name] = (array.dtype.str, begin, begin + array.nbytes)
        listed = json.dumps(directory).encode()
        file.write(listed)
        file.write(_TAIL.pack(len(listed), MAGIC))
    points.reach("bucket.written", path)
    return file.position, file.checksum


def _same_memory(rows: pa.RecordBatch, tau: I64) -> int | None:
    """Where the values of a column are that has the event times: they need not stand in the file twice."""
    for column in rows.columns:
        if pa.types.is_timestamp(column.type) and not column.null_count:
            values = whole_numbers(column)
            if len(values) and np.array_equal(values, tau):
                return int(values.ctypes.data)
    return None


class _Checked:
    """A file that is written: its length and checksum so far, and where the values at an address have been written."""

    closed = False  # what Arrow asks of a file

    def __init__(self, file: BinaryIO, wanted: int | None) -> None:
        self._file = file
        self._wanted = wanted
        self.found: int | None = None
        self.position = self.checksum = 0

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        if self._wanted is not None and isinstance(data, pa.Buffer) and data.address == self._wanted:
            self.found = self.position
        self._file.write(piece)
        self.checksum = zlib.crc32(piece, self.checksum)
        self.position += len(piece)
        return len(piece)

    def align(self) -> int:
        self.write(bytes(-self.position % _ALIGN))
        return self.position

    def flush(self) -> None:
        """Arrow asks for it; the file is closed soon."""


def verify_file(home: Path, info: BucketInfo) -> None:
    """Compare a bucket file with what the manifest says of it, byte for byte (by checksum)."""
    path = home / info.file
    checksum = 0
    try:
        if path.stat().st_size != info.bytes:
            raise damaged(path, f"it has {path.stat().st_size} bytes, the manifest has {info.bytes}")
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                checksum = zlib.crc32(chunk, checksum)
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    if checksum != info.checksum:
        raise damaged(path, "its checksum is not the one in the manifest")
