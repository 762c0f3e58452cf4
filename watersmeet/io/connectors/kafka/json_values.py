"""JSON messages as columns. Arrow decodes whole batches; what it rejects is decoded one by one (`json_value.py`).

A message has to be one object. Each one begins with { and ends with }, so two messages never make one row together; a
batch that has as many rows as messages has one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from watersmeet.io.connectors.kafka.columns import Fields
from watersmeet.io.connectors.kafka.json_value import values_of
from watersmeet.model import Column

_ONE_BY_ONE = 64  # messages of a batch that Arrow rejects which are not worth another try
Decoded = tuple[dict[str, pa.Array], list[str | None]]  # columns, and for each message why it is malformed


class JsonValues:
    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._tree = fields.nested()
        self._by_arrow = all(_reads(column.arrow) for column in fields.columns)
        self._schema = pa.schema(_struct(self._tree)) if self._by_arrow else None

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        good = [at for at, value in enumerate(values) if value is not None and _is_object(value)]
        texts = [value for value in values if value is not None] if len(good) == len(values) else None
        if texts is None:
            texts = [values[at] for at in good]  # type: ignore[misc]
        found, problems = self._decode(texts)
        if len(good) == len(values):
            return found, problems
        spread = pa.array(_spread(len(values), good), pa.int64())
        reasons: list[str | None] = [None if value is None else "it is not a JSON object" for value in values]
        for at, why in zip(good, problems, strict=True):
            reasons[at] = why
        return {name: array.take(spread) for name, array in found.items()}, reasons

    def _decode(self, texts: list[bytes]) -> Decoded:
        table = self._parsed(texts) if self._by_arrow and texts else None
        if table is not None:
            columns = self._columns(table)
            if columns is not None:
                return columns, [None] * len(texts)
        if len(texts) <= _ONE_BY_ONE:
            return self._one_by_one(texts)
        middle = len(texts) // 2
        (left, first), (right, second) = self._decode(texts[:middle]), self._decode(texts[middle:])
        return {name: pa.concat_arrays([left[name], right[name]]) for name in left}, first + second

    def _parsed(self, texts: list[bytes]) -> pa.Table | None:
        content = b"\n".join(texts)
        if content.count(b"\n") != len(texts) - 1:
            return None  # line ends inside of messages
        options = pa.json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")
        try:
            reading = pa.json.ReadOptions(use_threads=False, block_size=len(content) + 1)
            table = pa.json.read_json(pa.BufferReader(content), reading, options)
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == len(texts) else None

    def _columns(self, table: pa.Table) -> dict[str, pa.Array] | None:
        """None if some text is not what Arrow takes for a time, date or decimal."""
        found = {}
        for column, path in zip(self._fields.columns, self._fields.paths, strict=True):
            array = table.column(path[0])
            for name in path[1:]:
                array = pc.struct_field(array, name)
            array = array.combine_chunks()
            try:
                found[column.name] = _converted(array, column)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return None
        return found

    def _one_by_one(self, texts: list[bytes]) -> Decoded:
        rows: dict[str, list[Any]] = {column.name: [] for column in self._fields.columns}
        problems: list[str | None] = []
        for text in texts:
            try:
                row = values_of(text, self._fields)
                problems.append(None)
            except (ValueError, RecursionError) as problem:
                row = {}
                problems.append(str(problem).splitlines()[0][:200] or "it cannot be read")
            for name, found in rows.items():
                found.append(row.get(name))
        return {c.name: pa.array(rows[c.name], c.arrow) for c in self._fields.columns}, problems


def _is_object(value: bytes) -> bool:
    if value[:1] == b"{" and value[-1:] == b"}":
        return True
    value = value.strip(b" \t\r\n")
    return value[:1] == b"{" and value[-1:] == b"}"


def _spread(length: int, good: list[int]) -> list[int | None]:
    """For each message its place among those that were decoded."""
    places: list[int | None] = [None] * length
    for place, at in enumerate(good):
        places[at] = place
    return places


# By Arrow ---------------------------------------------------------------------------------------------


def _reads(kind: pa.DataType) -> bool:
    """Whether Arrow's reader gives values of this type their meaning, or a text that is converted."""
    if pa.types.is_list(kind):
        return _reads_inside(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_reads_inside(field.type) for field in kind)
    return not pa.types.is_map(kind) and not pa.types.is_binary(kind)


def _reads_inside(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        return _reads(kind)
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)
    )


def _struct(tree: dict[str, Any]) -> list[tuple[str, pa.DataType]]:
    found = []
    for name, inner in tree.items():
        if isinstance(inner, Column):
            is_text = pa.types.is_temporal(inner.arrow)
            found.append((name, pa.string() if is_text else inner.arrow))
        else:
            found.append((name, pa.struct(_struct(inner))))
    return found


def _converted(array: pa.Array, column: Column) -> pa.Array:
    kind = column.arrow
    if pa.types.is_date(kind):
        return array.cast(kind)
    if pa.types.is_timestamp(kind):
        return instants(array) if column.type == "timestamp" else array.cast(kind)
    return array if array.type == kind else array.cast(kind)


def instants(texts: pa.Array) -> pa.Array:
    """Times as UTC microseconds: all with a zone, or all without. Raises where Arrow cannot read one."""
    first = next((text for text in texts[:100].to_pylist() if text is not None), "")
    has_zone = first.endswith("Z") or first[-6:-5] in ("+", "-") or first[-5:-4] in ("+",)
    if has_zone:
        return texts.cast(pa.timestamp("us", tz="UTC")).view(pa.timestamp("us"))
    return texts.cast(pa.timestamp("us"))
