"""Values of rows in the order of references to them, from one array or from those of many buckets, in one pass."""

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


@njit(
    [
        types.void(read_only(word), read_only(row), types.Array(word, 1, "C"))
        for word in _OF_WIDTH.values()
        for row in (types.int32, types.int64)
    ],
    cache=CACHED,
    nogil=True,
)
def _take(values: Any, rows: Any, out: Any) -> None:
    for at in range(len(rows)):
        out[at] = values[rows[at]]


@njit(types.void(IN32, types.Array(types.boolean, 1, "C")), cache=CACHED, nogil=True)
def _mark(numbers: I32, out: Any) -> None:
    for at in range(len(numbers)):
        out[numbers[at]] = True


def taken(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """values[rows] of numbers, without the detour by way of a wider index; no row is negative."""
    out = np.empty(len(rows), values.dtype)
    word = f"u{values.itemsize}"
    _take(np.ascontiguousarray(values).view(word), np.ascontiguousarray(rows), out.view(word))
    return out


def numbers_in(numbers: I32) -> list[int]:
    """The different ones of small numbers, in order."""
    if not len(numbers):
        return []
    seen = np.zeros(int(numbers.max()) + 1, bool)
    _mark(numbers, seen)
    found: list[int] = np.flatnonzero(seen).tolist()
    return found


def gathered(arrays: Mapping[int, np.ndarray], numbers: I32, rows: I32, dtype: np.dtype) -> np.ndarray:
    """For each reference (the number of an array, and a row of it) the value; the arrays are contiguous."""
    addresses = np.zeros(max(arrays, default=-1) + 1, np.uint64)
    for number, array in arrays.items():
        addresses[number] = array.ctypes.data
    out: np.ndarray = np.empty(len(rows), dtype)
    _gather(addresses, numbers, rows, out.view(f"u{dtype.itemsize}"))
    return out
