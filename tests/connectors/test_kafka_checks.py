"""Declarations with Kafka that are rejected before anything runs, and Avro messages, without a broker."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.support.brokers.registry import running_registry
from watersmeet.errors import ModelError, SqlError, WatersmeetError
from watersmeet.io.connectors.kafka.avro_values import AvroValues
from watersmeet.io.connectors.kafka.columns import Fields
from watersmeet.io.connectors.kafka.messages import Keys, avro_schema
from watersmeet.io.connectors.kafka.schemas import Schemas
from watersmeet.io.sinks import result_schema
from watersmeet.model import Column, Source, Stream
from watersmeet.pipeline import Pipeline

SERVERS = "'bootstrap.servers' = 'localhost:1'"


def declared(columns: str = "at TIMESTAMP, id BIGINT", options: str = SERVERS, into: str = "") -> Pipeline:
    time = columns.split(maxsplit=1)[0]
    script = f"CREATE STREAM s ({columns}) TIMESTAMP BY {time} FROM kafka 'topic' WITH ({options});"
    if into:
        script += f"CREATE QUERY q INTO kafka 'out' WITH ({into}) AS SELECT * FROM s [RANGE 1 SECOND]"
    return Pipeline.read(script)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": f"{SERVERS}, startingOffset = 'latest'"}, "did you mean startingOffsets?"),
        ({"options": f"{SERVERS}, 'sasl.pasword' = 'x'"}, "did you mean sasl.password?"),
        ({"options": f"{SERVERS}, 'ssl.ca.locaton' = 'x'"}, "did you mean ssl.ca.location?"),
        ({"options": "format = 'json'"}, "needs the option bootstrap.servers"),
        ({"options": f"{SERVERS}, format = 'xml'"}, "use one of json, avro, csv, raw"),
        ({"options": f"{SERVERS}, startingOffsets = 'yesterday'"}, "use earliest, latest, a time"),
        ({"options": f"{SERVERS}, maxRowsPerTick = 0"}, "use a number above 0"),
        ({"options": f"{SERVERS}, format = 'avro'"}, "needs a schema"),
        ({"options": f"{SERVERS}, format = 'raw'"}, "as one column"),
        ({"options": f"{SERVERS}, 'path.nothing' = 'a.b'"}, "names no column"),
        ({"options": f"{SERVERS}, 'path.id' = 'a[0]'"}, "names with dots"),
        ({"options": f"{SERVERS}, 'path.id' = 'at.x'"}, "is inside of what at is read from"),
        ({"options": f"{SERVERS}, format = 'csv', 'path.id' = 'x'"}, "is for format = 'json' or 'avro'"),
        ({"columns": "at TIMESTAMP, _key INT"}, "a message has it as STRING or BINARY"),
        ({"columns": "at TIMESTAMP, _value STRING"}, "Pseudo-columns: _key"),
        ({"into": f"{SERVERS}, keys = 'id'"}, "did you mean key?"),
        ({"into": "key = 'id'"}, "needs the option bootstrap.servers"),
        ({"into": f"{SERVERS}, key = 'no_such'"}, "Result columns: at, id."),
        ({"into": f"{SERVERS}, key = 'id, at'"}, "the option key"),
        ({"into": f"{SERVERS}, format = 'avro'"}, "needs a schema"),
        ({"into": f"{SERVERS}, format = 'csv'"}, "use one of json, avro"),
    ],
)
def test_declarations_that_are_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(WatersmeetError) as caught:
        declared(**given)
    assert message in str(caught.value)
    assert isinstance(caught.value, SqlError) and caught.value.place is not None


def test_a_declaration_that_is_right() -> None:
    made = declared(
        "at TIMESTAMP, id BIGINT, _key STRING, _headers MAP<STRING, STRING>",
        f"{SERVERS}, 'path.id' = '$.a.b', startingOffsets = '{{\"0\": 5}}', 'sasl.password' = env('X')",
        f"{SERVERS}, key = 'concat(id, ''-'', _key)', 'compression.type' = 'zstd'",
    )
    assert made.streams["s"].source and made.queries["q"].sink.path == "out"


def test_the_key_of_a_query_is_typed() -> None:
    outputs = declared(into=f"{SERVERS}").queries["q"].outputs
    with pytest.raises(ModelError):
        Keys(result_schema(outputs), "id + at")


# Avro -------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "record",
    "name": "bid",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "bid", "type": {"type": "record", "name": "inner", "fields": [{"name": "price", "type": "long"}]}},
        {"name": "name", "type": ["null", "string"]},
    ],
}


def fields() -> Fields:
    columns = (Column("at", "TIMESTAMP"), Column("price", "BIGINT"), Column("name", "STRING"))
    return Fields.of(Stream("s", columns, "at", source=Source("kafka", "t", (("path.price", "bid.price"),))))


def message(number: int, **row: Any) -> bytes:
    content = io.BytesIO()
    content.write(struct.pack(">bI", 0, number))
    fastavro.schemaless_writer(content, fastavro.parse_schema(SCHEMA), row)
    return content.getvalue()


def test_avro_by_a_registry() -> None:
    """A schema is asked for once; messages of unknown schemas and other bytes are malformed."""
    login = "Basic " + base64.b64encode(b"me:secret").decode()
    with running_registry(login) as registry:
        number = registry.register("t-value", json.dumps(SCHEMA))
        own = {"schema.registry.url": registry.address, "schema.registry.basic.auth.user.info": "me:secret"}
        values = AvroValues(fields(), Schemas(own), is_framed=True)
        good = message(number, at=5_000_000, bid={"price": 7}, name="x")
        bad = [b"", b"\x01\x00\x00\x00\x01x", good[:-1], good + b"\x00", struct.pack(">bI", 0, 99) + b"x"]
        columns, problems = values.decode([good, None, *bad])
        assert columns["price"].to_pylist() == [7, None] + [None] * len(bad)
        assert columns["at"].cast("int64").to_pylist()[0] == 5_000_000
        assert problems[:2] == [None, None] and all(problems[2:])
        asked = registry.requests
        values.decode([good] * 10)
        assert registry.requests == asked
        with pytest.raises(ModelError, match="401"):
            Schemas({"schema.registry.url": registry.address}).writer(number)
    with pytest.raises(ConnectionError):
        Schemas(own).writer(number)


def test_avro_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "bid.avsc").write_text(json.dumps(SCHEMA))
    values = AvroValues(fields(), Schemas({"schema": str(tmp_path / "bid.avsc")}), is_framed=False)
    columns, problems = values.decode([message(0, at=1, bid={"price": 2}, name=None)[5:]])
    assert columns["price"].to_pylist() == [2] and problems == [None]
    with pytest.raises(ModelError, match="cannot be read"):
        Schemas({"schema": str(tmp_path / "none.avsc")})


@pytest.mark.parametrize(
    ("kind", "declared_as", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-micros"}, "BIGINT", 2**62),  # beyond what Python can have
        ({"type": "long", "logicalType": "time-micros"}, "BIGINT", 1),
        ({"type": "string", "logicalType": "uuid"}, "STRING", "12345678-1234-5678-1234-567812345678"),
        ({"type": "map", "values": "long"}, "ARRAY<BIGINT>", {"a": 1}),
        ("double", "DECIMAL(9,2)", 1.5),
        ("long", "STRUCT<a:BIGINT>", 1),
    ],
)
def test_a_value_of_another_type_concerns_its_message(
    tmp_path: Path, kind: Any, declared_as: str, value: object
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "at", "type": "long"}, {"name": "v", "type": kind}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    columns = (Column("at", "BIGINT"), Column("v", declared_as))
    fields = Fields.of(Stream("s", columns, "at", source=Source("kafka", "t")))
    values = AvroValues(fields, Schemas({"schema": str(tmp_path / "r.avsc")}), is_framed=False)
    content = io.BytesIO()
    plain = {"type": "record", "name": "r", "fields": [{"name": "at", "type": "long"}, {"name": "v", "type": kind}]}
    if isinstance(kind, dict):  # as the bytes of another writer
        plain["fields"][1]["type"] = {key: kind[key] for key in kind if key != "logicalType"}  # type: ignore[index]
    fastavro.schemaless_writer(content, fastavro.parse_schema(plain), {"at": 1, "v": value})
    found, problems = values.decode([content.getvalue()])
    assert found["v"].to_pylist() == [None] and problems[0]


def test_a_schema_of_result_columns_is_one() -> None:
    outputs = (
        declared("at TIMESTAMP, id BIGINT, d DECIMAL(9, 2), l ARRAY<INT>, b BOOLEAN", into=SERVERS).queries["q"].outputs
    )
    fastavro.parse_schema(avro_schema(result_schema(outputs)))
