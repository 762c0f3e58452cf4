"""Avro messages as columns, with Confluent's framing (a zero byte, the id of the schema in a registry) or without."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.io.connectors.kafka.columns import Fields
from watersmeet.io.connectors.kafka.json_values import Decoded
from watersmeet.io.connectors.kafka.schemas import Schemas

_HEAD = struct.Struct(">bI")


class AvroValues:
    def __init__(self, fields: Fields, schemas: Schemas, is_framed: bool) -> None:
        self._fields = fields
        self._schemas = schemas
        self._is_framed = is_framed

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        rows: dict[str, list[Any]] = {column.name: [] for column in self._fields.columns}
        problems: list[str | None] = []
        for value in values:
            found: dict[str, Any] = {}
            problem = None
            if value is not None:
                try:
                    found = self._row(value)
                except (WatersmeetError, ConnectionError):
                    raise  # of the schema, not of the message
                except Exception as reason:  # such as OverflowError of a date, or AttributeError of a path
                    problem = f"it is not an Avro message of the schema: {reason!s:.150}"
            problems.append(problem)
            for name, column in rows.items():
                column.append(found.get(name))
        return {c.name: self._array(c.name, c.arrow, rows[c.name], problems) for c in self._fields.columns}, problems

    def _row(self, value: bytes) -> dict[str, Any]:
        from fastavro import schemaless_reader

        if self._is_framed:
            magic, number = _HEAD.unpack_from(value)
            if magic:
                raise ValueError(f"it begins with byte {magic}, not 0")
            schema, content = self._schemas.writer(number), value[_HEAD.size :]
        else:
            schema, content = self._schemas.writer(None), value
        stream = io.BytesIO(content)
        record: Any = schemaless_reader(stream, schema, None)
        if stream.read(1):
            raise ValueError("it is longer than the schema says")
        row = {}
        for column, path in zip(self._fields.columns, self._fields.paths, strict=True):
            at = record
            for name in path:
                at = at.get(name) if at is not None else None
            row[column.name] = at
        return row

    @staticmethod
    def _array(name: str, kind: pa.DataType, values: list[Any], problems: list[str | None]) -> pa.Array:
        """A column; a value of another type than declared makes its message malformed."""
        wanted = pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(kind) else kind
        try:
            made = pa.array(values, wanted)
        except Exception:  # what it raises depends on the type
            kept = []
            for at, value in enumerate(values):
                try:
                    kept.append(pa.array([value], wanted)[0].as_py())
                except Exception as problem:
                    kept.append(None)
                    problems[at] = f"{name}: {str(problem).partition(chr(10))[0][:150] or type(problem).__name__}"
            made = pa.array(kept, wanted)
        return made.view(kind) if made.type != kind else made
