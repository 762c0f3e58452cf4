"""How much memory of the process's own values take: files that are mapped are not counted."""

from __future__ import annotations

import pyarrow as pa


def own_bytes(rows: pa.RecordBatch | pa.Table) -> int:
    """The bytes of rows in memory; what several columns have in common counts once. What is mapped is not mutable."""
    sizes: dict[int, int] = {}  # by address
    for column in rows.columns:
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            sizes.update((one.address, one.size) for one in chunk.buffers() if one is not None and one.is_mutable)
    return sum(sizes.values())
