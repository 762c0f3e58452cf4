"""Results as messages: a value in JSON or Avro, and a key that an expression over the result columns gives."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.io.connectors.kafka.schemas import Schemas
from watersmeet.io.json_lines import JsonLines
from watersmeet.model import Column, Stream, member_column
from watersmeet.model.types import type_of_arrow
from watersmeet.sql import build_query
from watersmeet.store.evaluate import evaluate

_ROW, _AT = "result", "at_of_the_result"  # a stream of results, for the expression of a key


class JsonMessages:
    """One object each; times as in 2030-01-31T12:00:00.000000Z."""

    def __init__(self, schema: pa.Schema) -> None:
        self._times = [at for at, kind in enumerate(schema.types) if pa.types.is_timestamp(kind)]
        self._lines = JsonLines(schema)

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        table = pa.Table.from_batches([rows])
        for at in self._times:
            field = table.schema.field(at)
            zone = "Z" if field.type.tz else ""
            texts = pc.strftime(table.column(at), f"%Y-%m-%dT%H:%M:%S{zone}")
            table = table.set_column(at, field.name, texts)
        return [text.encode() for text in self._lines.of(table)]

    def close(self) -> None:
        self._lines.close()


class AvroMessages:
    def __init__(self, schema: pa.Schema, schemas: Schemas, topic: str) -> None:
        from fastavro import parse_schema

        plain = schemas.file if schemas.file is not None else avro_schema(schema)
        self._schema = parse_schema(plain)
        self._head = b""
        if schemas.registry:
            self._head = struct.pack(">bI", 0, schemas.register(f"{topic}-value", json.dumps(plain)))

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        from fastavro import schemaless_writer

        found = []
        for row in rows.to_pylist():
            content = io.BytesIO()
            content.write(self._head)
            schemaless_writer(content, self._schema, row)
            found.append(content.getvalue())
        return found

    def close(self) -> None:
        """Nothing is held."""


MessageEncoder = JsonMessages | AvroMessages  # the values of messages for rows of results


_AVRO = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_floating, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
)


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """A record of nullable fields."""
    fields = [{"name": f.name, "type": ["null", _avro_type(f.type, f.name)], "default": None} for f in schema]
    return {"type": "record", "name": _ROW, "namespace": "watersmeet", "fields": fields}


def _avro_type(kind: pa.DataType, name: str) -> Any:
    for test, found in _AVRO:
        if test(kind):
            return found
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, f"{name}_item")]}
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": ["null", _avro_type(f.type, f"{name}_{f.name}")]} for f in kind]
        return {"type": "record", "name": f"{name}_record", "fields": fields}
    raise ModelError(f"the column {name} cannot be written as Avro", detail=f"Its type is {kind}.")


class Keys:
    """Keys of messages: an expression of Spark SQL over the result columns."""

    def __init__(self, schema: pa.Schema, expression: str) -> None:
        columns = tuple(Column(field.name, _declared(field.type)) for field in schema)
        stream = Stream(_ROW, (*columns, Column(_AT, "bigint")), _AT)
        try:
            query = build_query("key", f"SELECT {expression} AS key FROM {_ROW} [RANGE 0 SECONDS]", {_ROW: stream})
        except WatersmeetError as problem:
            listed = ", ".join(schema.names)
            raise ModelError(
                f"the option key: {problem.problem}", detail=f"Result columns: {listed}.", hint=problem.hint
            ) from None
        if len(query.outputs) != 1:
            raise ModelError(
                f"the option key: {expression} is not one expression", hint="use concat(…) for several columns"
            )
        self._key = query.outputs[0].expression.text
        if query.spark_columns:
            raise ModelError(f"the option key: {expression} is computed by Spark", hint="make it a column of the query")

    def of(self, rows: pa.RecordBatch) -> list[bytes | None]:
        columns = {member_column(_ROW, name): _naive(rows.column(name)) for name in rows.schema.names}
        (values,) = evaluate(pa.table(columns), [self._key]).values
        if pa.types.is_binary(values.type):
            return list(values.to_pylist())
        return [None if value is None else _text(value).encode() for value in values.to_pylist()]


def _declared(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return "timestamp_ntz"
    return type_of_arrow(kind)


def _naive(array: pa.Array) -> pa.Array:
    """Inside of expressions, every time is naive UTC."""
    return array.view(pa.timestamp("us")) if pa.types.is_timestamp(array.type) else array


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def messages(rows: pa.RecordBatch, values: MessageEncoder, keys: Keys | None) -> Iterator[tuple[bytes, bytes | None]]:
    encoded = values.encode(rows)
    return zip(encoded, keys.of(rows) if keys is not None else [None] * len(encoded), strict=True)
