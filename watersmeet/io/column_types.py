"""Which columns of a file hold values of a declared type, and how they become such values.

A column is read if each of its values is a value of the declared type and Spark reads it as the same value: integers
and floating-point numbers of at most the declared width, decimals of the same scale, times of any unit. Values in
arrays, maps and structs follow the same rules. Two kinds of column are read that Spark rejects: times with nanoseconds,
of which the microseconds are used, and columns without a type, which have only NULLs. docs/options.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import type_of_arrow

_MICROSECONDS = pa.timestamp("us")


def reads_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of a file is read as the Arrow type of a declared one."""
    if isinstance(found, pa.BaseExtensionType):
        return reads_as(found.storage_type, wanted)
    if pa.types.is_dictionary(found):
        return reads_as(found.value_type, wanted)
    if pa.types.is_null(found):
        return True
    for is_kind, fits in _RULES:
        if is_kind(wanted):
            return fits(found, wanted)
    return bool(found == wanted)


def _integer_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if not pa.types.is_integer(found):
        return False
    return bool(found.bit_width + pa.types.is_unsigned_integer(found) <= wanted.bit_width)


def _number_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    return found in (pa.float32(), pa.float64()) and found.bit_width <= wanted.bit_width


def _decimal_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(found) and found.scale == wanted.scale and found.precision <= wanted.precision)


_TEXTS = (
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
)


def _bytes_fit(found: pa.DataType, wanted: pa.DataType) -> bool:
    return found in _TEXTS or (pa.types.is_binary(wanted) and pa.types.is_fixed_size_binary(found))


def _list_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    return _is_list(found) and reads_as(found.value_type, wanted.value_type)


def _map_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    is_map = pa.types.is_map(found)
    return is_map and reads_as(found.key_type, wanted.key_type) and reads_as(found.item_type, wanted.item_type)


def _struct_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if not pa.types.is_struct(found):
        return False
    places = [places_of(field.name, [each.name for each in found]) for field in wanted]
    if any(len(each) != 1 for each in places):
        return False
    return all(reads_as(found.field(at).type, field.type) for (at,), field in zip(places, wanted, strict=True))


def _is_list(kind: pa.DataType) -> bool:
    """List views are not among them: Arrow does not convert what it reads of them from a file."""
    kinds = pa.types
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


_Rule = Callable[[pa.DataType, pa.DataType], bool]
_RULES: list[tuple[Callable[[pa.DataType], bool], _Rule]] = [
    (pa.types.is_timestamp, lambda found, _: bool(pa.types.is_timestamp(found))),
    (pa.types.is_integer, _integer_fits),
    (pa.types.is_floating, _number_fits),
    (pa.types.is_decimal, _decimal_fits),
    (pa.types.is_string, _bytes_fit),
    (pa.types.is_binary, _bytes_fit),
    (pa.types.is_list, _list_fits),
    (pa.types.is_map, _map_fits),
    (pa.types.is_struct, _struct_fits),
]


def places_of(name: str, names: list[str]) -> list[int]:
    """Where a name is among others; names ignore case."""
    return [at for at, each in enumerate(names) if each.lower() == name.lower()]


def converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column that `reads_as` another type, as that type. Raises ArrowInvalid where a value is out of its range."""
    kind = array.type
    if kind == wanted:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return converted(array.storage, wanted)
    if pa.types.is_dictionary(kind):
        return converted(array.dictionary_decode(), wanted)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), wanted)
    for is_kind, convert in _CONVERSIONS:
        if is_kind(wanted):
            return convert(array, wanted)
    return array.cast(wanted)


def _microseconds(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """An instant is kept as its UTC microseconds: the one that it is in or, with nanoseconds, that it is after."""
    kind = array.type
    if not pa.types.is_timestamp(kind):
        return array.cast(wanted)
    naive = array.view(pa.timestamp(kind.unit))
    if kind.unit != "ns":
        return naive.cast(_MICROSECONDS)
    nanos = naive.view(pa.int64())
    micros = pc.divide(nanos, 1000)
    first = pc.min(nanos).as_py()
    if first is not None and first < 0:  # a division rounds these up; floor_temporal overflows for the least of them
        is_rounded_up = pc.less(nanos, pc.multiply(micros, 1000))
        micros = pc.subtract(micros, is_rounded_up.cast(pa.int64()))
    return micros.view(_MICROSECONDS)


def _text(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array.cast(wanted, safe=False)  # rows with text that is not UTF-8 are set aside, not their file


def _list(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    inner = converted(array.values, wanted.value_type)
    if pa.types.is_list(array.type):
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[inner])
    # Not by a cast: Arrow's leaves too few values in lists of lists or maps whose values have no type.
    if pa.types.is_large_list(array.type):
        begins = array.offsets.to_numpy()
    else:
        begins = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * array.type.list_size
    return pa.ListArray.from_arrays(pa.array(begins).cast(pa.int32()), inner, type=wanted, mask=array.is_null())


def _map(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    inner = [converted(array.keys, wanted.key_type), converted(array.items, wanted.item_type)]
    entries = pa.StructArray.from_arrays(inner, fields=[wanted.key_field, wanted.item_field])
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _struct(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    names = [field.name for field in array.type]
    inner = [converted(array.field(places_of(field.name, names)[0]), field.type) for field in wanted]
    return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=array.is_null())


_CONVERSIONS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], pa.Array]]] = [
    (pa.types.is_timestamp, _microseconds),
    (pa.types.is_string, _text),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
]


def type_name(kind: pa.DataType) -> str:
    """A type of a file in an error: as it would be declared, or with Arrow's name if it cannot be declared."""
    if pa.types.is_null(kind):
        return "NULL"
    return type_of_arrow(kind).upper() if _can_be_declared(kind) else str(kind)


def _can_be_declared(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_decimal(kind):
        return bool(kind.bit_width <= pa.decimal128(1, 0).bit_width)
    if pa.types.is_nested(kind):
        simple = pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind)
        return simple and all(_can_be_declared(kind.field(at).type) for at in range(kind.num_fields))
    return pa.types.is_timestamp(kind) or kind in _DECLARED


_DECLARED = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
)
