"""Parquet files of every type, for streams of every declared type, beside two healthy queries: a file is read as Spark
reads it or set aside by name, and nothing stops."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.odd_parquet import DECLARED, EVENT_TIMES, MORE_DECLARED, SCALARS, SHAPES, nested
from tests.support.parquet_input import EPOCH, TIMESTAMP, damaged
from watersmeet import Engine
from watersmeet.home import layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = 1_700_000_000  # seconds: long settled
A_FILE = 10  # ids for each


@dataclass
class Input:
    """A folder of odd files, and one of healthy ones."""

    root: Path
    columns: Mapping[str, pa.Array]  # by the name of its file
    unreadable: set[str] = field(default_factory=set)  # files that no stream reads
    ids: dict[str, int] = field(default_factory=dict)  # of the first row of a file

    def __post_init__(self) -> None:
        for folder in ("odd", "healthy"):
            (self.root / folder).mkdir()
        for number, (name, column) in enumerate(self.columns.items()):
            self.ids[name] = number * A_FILE
            self._write(name, self._table(number, column))
        for name, table in self._twice():
            self._write(name, table)
        self._tear()
        for file in (self.root / "odd").iterdir():
            os.utime(file, (OLD, OLD))
        for number in range(2):
            ids = {"ts": pa.array([EPOCH] * 3, TIMESTAMP), "id": range(3 * number, 3 * number + 3)}
            pq.write_table(pa.table(ids), self.root / f"healthy/{number}.parquet")

    def _table(self, number: int, column: pa.Array) -> pa.Table:
        ids = pa.array(range(number * A_FILE, number * A_FILE + len(column)), pa.int64())
        return pa.table({"ts": pa.array([EPOCH] * len(column), TIMESTAMP), "id": ids, "v": column})

    def _write(self, name: str, table: pa.Table) -> None:
        pq.write_table(table, self.root / f"odd/{name}.parquet")

    def _twice(self) -> Iterator[tuple[str, pa.Table]]:
        """Two columns for `v`, or none."""
        table = self._table(10_000, SCALARS["int32"])
        for name, other in (("twice", "v"), ("twice_upper", "V")):
            yield name, table.append_column(other, SCALARS["string"])
            self.unreadable.add(name)
        yield "no_column", pa.table({})
        self.unreadable.add("no_column")

    def _tear(self) -> None:
        """Files of which a part is lost or changed."""
        whole = self.root / "odd/whole.parquet"
        values = pa.array([None, 1, 2, 3] * 500, pa.int32())
        pq.write_table(self._table(20_000, values), whole, row_group_size=500, use_dictionary=False)
        content = whole.read_bytes()
        whole.unlink()
        size = len(content)
        torn = {f"cut_{at}": content[:at] for at in (0, 3, 4, 8, size // 2, size - 9, size - 8, size - 4, size - 1)}
        torn["encrypted"] = content[:-4] + b"PARE"
        torn["footer"] = content[:-200] + b"\xff" * 150 + content[-50:]
        torn["inside"] = damaged(content)
        for name, some in torn.items():
            (self.root / f"odd/{name}.parquet").write_bytes(some)
            self.unreadable.add(name)

    def paths(self, names: Iterable[str]) -> list[str]:
        return [str(self.root / f"odd/{name}.parquet") for name in names]


@dataclass
class Outcome:
    """What a stream made of the odd files."""

    declared: str
    rows: dict[str, dict[int, Any]]  # by file and row, the value
    aside: dict[str, str]  # by file, why


def run(given: Input, declared: Sequence[str], times: Sequence[str]) -> list[Outcome]:
    """Streams of all of these types over the same files, some of them with `v` as the event time."""
    engine = Engine(home=given.root / "home", executor="local")
    streams = [(f"s{at}", kind, "ts") for at, kind in enumerate(declared)]
    streams += [(f"t{at}", kind, "v") for at, kind in enumerate(times)]
    for name, kind, time in streams:
        engine.sql(
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, v {kind}) TIMESTAMP BY {time} LATENESS 300000 DAYS "
            f"AHEAD UNBOUNDED FROM parquet '{given.root}/odd'; "
            f"CREATE QUERY q_{name} AS SELECT x.id, x.v FROM {name} x WINDOW 1 SECOND;"
        )
    engine.sql(f"CREATE STREAM healthy (ts TIMESTAMP, id BIGINT) TIMESTAMP BY ts FROM parquet '{given.root}/healthy';")
    engine.query("first", "SELECT h.id FROM healthy h WINDOW 1 SECOND")
    engine.query("second", "SELECT a.id FROM healthy a [RANGE 1 SECOND], healthy b [RANGE 1 SECOND] WHERE a.id = b.id")
    with engine:
        engine.run_once()
        assert not [query for query in engine.stats().queries if query.suspended]
    for query in ("first", "second"):
        assert sorted(row["id"] for row in results(given.root / "home", query)) == list(range(6))
    return [outcome(given, name, kind) for name, kind, _ in streams]


def results(home: Path, query: str) -> list[dict[str, Any]]:
    files = (home / "results" / query).glob("*.parquet")
    return [row for file in files for row in pq.read_table(file).to_pylist(maps_as_pydicts="strict")]


def outcome(given: Input, stream: str, declared: str) -> Outcome:
    names = {first: name for name, first in given.ids.items()}
    rows: dict[str, dict[int, Any]] = {}
    for row in results(given.root / "home", f"q_{stream}"):
        of_file = rows.setdefault(names[row["id"] // A_FILE * A_FILE], {})
        assert row["id"] % A_FILE not in of_file, "each row once"
        of_file[row["id"] % A_FILE] = comparable(row["v"])
    listed = [json.loads(line) for line in layout.rejected_files(given.root / "home", stream).read_text().splitlines()]
    return Outcome(declared, rows, {Path(each["file"]).stem: each["because"] for each in listed})


def comparable(value: Any, is_text: bool = False) -> Any:
    if isinstance(value, bytes) and is_text:
        return value.decode()
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, pd.Timestamp):
        value = value.floor("us").to_pydatetime()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, list):
        return [comparable(each, is_text) for each in value]
    if isinstance(value, dict):
        return {key: comparable(each, is_text) for key, each in value.items()}
    return value


# What is expected ---------------------------------------------------------------------------------


def has(kind: pa.DataType, wanted: Any) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return wanted(kind) or any(has(each, wanted) for each in inner)


def is_exception(name: str, kind: pa.DataType, declared: str) -> bool:
    """What is read although Spark rejects it: nanoseconds, which are cut off, and what has no type, which is NULL. Rows
    with text that is not UTF-8 are set aside, and Spark reads them."""
    if "no_text" in name and "STRING" in declared:
        return True
    return has(kind, pa.types.is_null) or has(kind, lambda each: pa.types.is_timestamp(each) and each.unit == "ns")


def of_exception(column: pa.Array, declared: str) -> dict[int, Any]:
    rows = {}
    for row, value in enumerate(column.to_pylist(maps_as_pydicts="strict")):
        with contextlib.suppress(UnicodeDecodeError):
            rows[row] = comparable(value, "BINARY" not in declared)
    return rows


def check(given: Input, found: Outcome, spark: SparkSession) -> int:
    """The number of files that were read."""
    files = given.columns.keys() | given.unreadable
    assert found.rows.keys() | found.aside.keys() == files, found.declared
    assert not found.rows.keys() & found.aside.keys(), "of a file all rows are used, or none"
    assert given.unreadable <= found.aside.keys()
    for name in found.aside.keys() - given.unreadable:
        why = found.aside[name]
        assert f"{name}.parquet has v as " in why, why
        assert why.endswith(f"; the stream declares {found.declared.upper()}"), why
    read = sorted(found.rows)
    by_spark = [name for name in read if not is_exception(name, given.columns[name].type, found.declared)]
    expected = spark_reads(spark, given, by_spark, found.declared)
    for name in read:
        wanted = expected[name] if name in expected else of_exception(given.columns[name], found.declared)
        assert found.rows[name] == wanted, (name, found.declared)
    return len(read)


def spark_reads(spark: SparkSession, given: Input, names: list[str], declared: str) -> dict[str, dict[int, Any]]:
    """Spark's own reading, which fails if it cannot read one of them."""
    if not names:
        return {}
    frame = spark.read.schema(f"id BIGINT, v {declared}").parquet(*given.paths(names))
    rows: dict[str, dict[int, Any]] = {name: {} for name in names}
    by_id = {first: name for name, first in given.ids.items()}
    for row in frame.toArrow().to_pylist(maps_as_pydicts="strict"):
        rows[by_id[row["id"] // A_FILE * A_FILE]][row["id"] % A_FILE] = comparable(row["v"])
    return rows


def check_times(given: Input, found: Outcome) -> None:
    """With `v` as the event time, files are read or set aside all the same; rows without a time are set aside."""
    assert given.unreadable <= found.aside.keys()
    assert not found.rows.keys() & found.aside.keys()
    for name, rows in found.rows.items():
        assert 2 not in rows, f"the third row of {name} has no time"


def test_no_file_stops_others_and_values_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    some = ("int32", "int64", "float64", "string", "null", "timestamp_ns", "uint32", "time64_us", "decimal128_10_2")
    given = Input(tmp_path, {**SCALARS, **SHAPES, **nested(some)})
    found = run(given, DECLARED, EVENT_TIMES)
    read = sum(check(given, each, spark) for each in found[: len(DECLARED)])
    for each in found[len(DECLARED) :]:
        check_times(given, each)
    assert read > 100, read


@pytest.mark.semantics
def test_every_type_against_every_declared_type(spark: SparkSession, tmp_path: Path) -> None:
    given = Input(tmp_path, {**SCALARS, **SHAPES, **nested(SCALARS)})
    declared = (*DECLARED, *MORE_DECLARED)
    found = run(given, declared, EVENT_TIMES)
    read = sum(check(given, each, spark) for each in found[: len(declared)])
    for each in found[len(declared) :]:
        check_times(given, each)
    print(f"{len(declared) * len(given.columns)} combinations, {read} read")
    assert read > 300
