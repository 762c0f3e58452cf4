"""How much memory values take, of the process's own: files that are mapped are not counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

Held: TypeAlias = np.ndarray | pa.RecordBatch | pa.Table


def held_bytes(values: Iterable[Held]) -> int:
    """The bytes of values; memory that several of them share counts once. What is mapped cannot be written to."""
    sizes: dict[int, int] = {}  # by address
    for each in values:
        if isinstance(each, np.ndarray):
            if each.flags.writeable:
                sizes[each.ctypes.data] = max(each.nbytes, sizes.get(each.ctypes.data, 0))
            continue
        for column in each.columns:
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
                sizes.update((one.address, one.size) for one in chunk.buffers() if one is not None and one.is_mutable)
    return sum(sizes.values())
