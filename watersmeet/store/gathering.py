"""Values of rows in many buckets, in the order of their references: one pass, wherever the rows are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from watersmeet.store.compile_cache import CACHED  # isort: skip - before Numba is imported
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from watersmeet.store.kernels import I32, IN32, read_only

_OF_WIDTH: dict[int, Any] = {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}
WIDTHS = frozenset(_OF_WIDTH)  # bytes of a value


def _load(_: Any, address: Any, row: Any, out: Any) -> Any:
    """The value of a row of the array that begins at an address, of the type that `out` has."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.PointerType(context.get_value_type(signature.return_type))
        return builder.load(builder.gep(builder.inttoptr(arguments[0], kind), [arguments[1]]))

    return out.dtype(address, row, out), load


_value_at: Any = intrinsic(_load)


@njit(
    [types.void(read_only(types.uint64), IN32, IN32, types.Array(word, 1, "C")) for word in _OF_WIDTH.values()],
    cache=CACHED,
    nogil=True,
)
def _gather(addresses: Any, numbers: I32, rows: I32, out: Any) -> None:
    for at in range(len(out)):
        out[at] = _value_at(addresses[numbers[at]], np.int64(rows[at]), out)


def gathered(arrays: Mapping[int, np.ndarray], numbers: I32, rows: I32, dtype: np.dtype) -> np.ndarray:
    """For each reference (the number of an array, and a row of it) the value; the arrays are contiguous."""
    addresses = np.zeros(max(arrays, default=-1) + 1, np.uint64)
    for number, array in arrays.items():
        addresses[number] = array.ctypes.data
    out: np.ndarray = np.empty(len(rows), dtype)
    _gather(addresses, numbers, rows, out.view(f"u{dtype.itemsize}"))
    return out
