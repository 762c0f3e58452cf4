"""Result files hold values at the ends of their types, for every reader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.io.sinks import open_writer
from watersmeet.model import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of the years 1 and 9999
ENDS = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.date32(): (-719_162, 2_932_896),
    pa.timestamp("us", tz="UTC"): (FIRST, LAST),
    pa.timestamp("us"): (FIRST, LAST),
}


def some_rows(count: int) -> pa.Table:
    chance = random.Random(28)

    def some(low: int, high: int) -> list[Any]:
        return [chance.choice((None, low, high, chance.randint(low, high))) for _ in range(count)]

    columns = {f"c {number}.x": pa.array(some(*ends), kind) for number, (kind, ends) in enumerate(ENDS.items())}
    return pa.table({**columns, "nothing": pa.nulls(count, pa.int64()), "text": pa.array(["é"] * count)})


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_every_reader_finds_the_values(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    rows = some_rows(2000)
    writer = open_writer(tmp_path / "out" / "1.parquet", Sink(), rows.schema)
    for part in (rows.slice(0, 700), rows.slice(700)):
        writer.write(part)
    writer.close()
    file = str(tmp_path / "out" / "1.parquet")
    assert pq.read_table(file).equals(rows)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    assert connection.sql(f"FROM '{file}'").to_arrow_table().cast(rows.schema).equals(rows)
    before = spark.conf.get("spark.sql.parquet.enableVectorizedReader")
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectors)
    try:
        found = spark.read.parquet(file).toArrow()
    finally:
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", str(before))
    for name in rows.schema.names:
        assert (
            found.column(name)
            .combine_chunks()
            .cast(rows.schema.field(name).type)
            .equals(rows.column(name).combine_chunks())
        )
