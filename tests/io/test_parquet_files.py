"""Whatever fails while a Parquet file is read concerns that file."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.parquet_input import EPOCH, TIMESTAMP
from watersmeet import Engine
from watersmeet.errors import InputError, ModelError
from watersmeet.home import layout
from watersmeet.io import parquet_files
from watersmeet.io.column_types import converted
from watersmeet.io.parquet_files import StreamFile
from watersmeet.io.sources import check_file_source
from watersmeet.model import Column, Source, Stream

OLD = 1_700_000_000  # seconds: long settled
COLUMNS = "(ts TIMESTAMP, id BIGINT, v {})"


def stream(declared: str) -> Stream:
    return Stream("x", (Column("v", declared), Column("at", "bigint")), "at")


def rows(path: Path, declared: str) -> list[object]:
    file = StreamFile(stream(declared), str(path))
    return [row["v"] for at in range(file.row_groups) for batch in file.rows(at) for row in batch.to_pylist()]


def write(folder: Path, name: str, values: pa.Array, number: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    table = {"ts": pa.array([EPOCH] * len(values), TIMESTAMP), "id": range(number, number + len(values)), "v": values}
    pq.write_table(pa.table(table), folder / name)
    os.utime(folder / name, (OLD, OLD))


def engine_on(folder: Path, declared: str) -> Engine:
    engine = Engine(home=folder / "home", executor="local")
    engine.sql(
        f"CREATE STREAM x {COLUMNS.format(declared)} TIMESTAMP BY ts FROM parquet '{folder}/x';"
        "CREATE QUERY q AS SELECT x.id, x.v FROM x WINDOW 1 SECOND;"
    )
    return engine


def found(folder: Path) -> list[tuple[int, object]]:
    files = (folder / "home/results/q").glob("*.parquet")
    return sorted((row["id"], row["v"]) for file in files for row in pq.read_table(file).to_pylist())


def set_aside(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in layout.rejected_files(folder / "home", "x").read_text().splitlines()]


@pytest.mark.parametrize("raised", [AssertionError(), KeyError("v"), NotImplementedError("new type"), RecursionError()])
@pytest.mark.parametrize("where", ["read_row_group", "converted", "reads_as"])
def test_any_exception_while_a_file_is_read_concerns_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, where: str
) -> None:
    """What no file is known to raise is raised here: a new version of a library may."""
    write(tmp_path / "x", "bad.parquet", pa.array([1], pa.int16()))
    write(tmp_path / "x", "good.parquet", pa.array([2], pa.int64()), 7)
    real = getattr(parquet_files, where)

    def fail(*given: object) -> object:
        file = next((each for each in given if isinstance(each, pq.ParquetFile)), None)
        kinds = [getattr(each, "type", each) for each in given] if file is None else [file.schema_arrow.field("v").type]
        if pa.int16() in kinds:
            raise raised
        return real(*given)

    monkeypatch.setattr(parquet_files, where, fail)
    with engine_on(tmp_path, "BIGINT") as engine:
        engine.run_once()
    assert found(tmp_path) == [(7, 2)]
    (listed,) = set_aside(tmp_path)
    assert listed["file"].endswith("bad.parquet") and "bad.parquet " in listed["because"]
    assert listed["detail"] == (str(raised) or type(raised).__name__)


def test_a_value_out_of_range_names_the_column_and_both_types(tmp_path: Path) -> None:
    beyond = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("ms"))
    pq.write_table(pa.table({"at": [1, 2], "v": beyond}), tmp_path / "a")
    with pytest.raises(InputError, match=r"a has values of v \(TIMESTAMP\) that cannot be read as TIMESTAMP_NTZ"):
        rows(tmp_path / "a", "timestamp_ntz")


INSTANTS = [-(2**63), -(2**63) + 807, -(2**63) + 999, -1001, -1000, -1, None, 0, 999, 2**63 - 1]  # nanoseconds


@pytest.mark.parametrize("begin", [0, 2, 6])
def test_nanoseconds_are_cut_off_at_the_ends_of_time_too(begin: int) -> None:
    """Between 1677 and 2262; an instant is in the microsecond that began last before it."""
    found = pa.array(INSTANTS, pa.int64()).view(pa.timestamp("ns", "Europe/Berlin"))[begin:]
    wanted = [None if instant is None else instant // 1000 for instant in INSTANTS[begin:]]
    plain = converted(found, pa.timestamp("us"))
    assert plain.view(pa.int64()).to_pylist() == wanted
    lists = converted(pa.LargeListArray.from_arrays([0, 1, len(found)], found), pa.list_(pa.timestamp("us")))
    assert lists.values.view(pa.int64()).to_pylist() == wanted and lists.offsets.to_pylist() == [0, 1, len(found)]


UNTYPED = [
    (pa.list_(pa.null()), [[None, None]], "array<int>"),
    (pa.large_list(pa.null()), [[], [None]], "array<int>"),
    (pa.list_(pa.null(), 2), [[None, None]], "array<int>"),
    (pa.map_(pa.string(), pa.null()), [[("a", None), ("b", None)], []], "map<string, int>"),
    (pa.struct([("a", pa.null()), ("b", pa.list_(pa.null(), 2))]), [{"a": None, "b": [None, None]}],
     "struct<a: int, b: array<int>>"),
]  # fmt: skip


@pytest.mark.parametrize("around", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)], ids=["a", "large", "two"])
@pytest.mark.parametrize(("kind", "values", "declared"), UNTYPED, ids=str)
def test_values_without_a_type_inside_of_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, values: list[object], declared: str, around: Any
) -> None:
    """A file is read whole, and in parts."""
    given = [[value, value] for value in values] + [None, [values[-1], None]]
    pq.write_table(pa.table({"at": range(len(given) * 5), "v": pa.array(given * 5, around(kind))}), tmp_path / "a")
    assert rows(tmp_path / "a", f"array<{declared}>") == given * 5
    monkeypatch.setattr(parquet_files, "_AT_ONCE", 0)
    monkeypatch.setattr(parquet_files, "_PART", 200)
    assert rows(tmp_path / "a", f"array<{declared}>") == given * 5


def test_rows_of_files_with_other_types_are_set_aside_together(tmp_path: Path) -> None:
    """One file has INT, another BIGINT, and each a row without an event time."""
    (tmp_path / "x").mkdir()
    for number, kind in enumerate((pa.int32(), pa.int64())):
        times = pa.array([None, EPOCH], pa.timestamp("ns" if number else "us"))
        table = {"ts": times, "id": pa.array([0, 1], kind), "v": pa.array([number, number], kind)}
        pq.write_table(pa.table(table), tmp_path / f"x/{number}.parquet")
    with engine_on(tmp_path, "BIGINT") as engine:
        engine.run_once()
        assert engine.stats().streams[0].set_aside == {"no event time": 2}
    assert found(tmp_path) == [(1, 0), (1, 1)]
    (aside,) = (tmp_path / "home/rejected/x").glob("*.parquet")
    assert sorted(pq.read_table(aside)["v"].to_pylist()) == [0, 1]


def test_a_large_row_group_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"at": range(10_000), "v": range(10_000)}), tmp_path / "a", use_dictionary=False)
    size = pq.ParquetFile(tmp_path / "a").metadata.row_group(0).total_byte_size
    monkeypatch.setattr(parquet_files, "_AT_ONCE", size - 1)
    monkeypatch.setattr(parquet_files, "_PART", size // 10)
    file = StreamFile(stream("bigint"), str(tmp_path / "a"))
    assert len(list(file.rows(0))) >= 10
    assert rows(tmp_path / "a", "bigint") == list(range(10_000))


def test_rows_that_are_too_large_set_their_file_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_LARGEST", 1000)
    write(tmp_path / "x", "bad.parquet", pa.array(["a" * 1001]))
    write(tmp_path / "x", "good.parquet", pa.array(["a"]), 7)
    with engine_on(tmp_path, "STRING") as engine:
        engine.run_once()
    assert found(tmp_path) == [(7, "a")]
    (listed,) = set_aside(tmp_path)
    assert "bad.parquet needs more memory than a task may have" in listed["because"]


def test_a_column_named_corrupt_record_is_an_ordinary_one(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    table = {"ts": pa.array([EPOCH] * 2, TIMESTAMP), "id": [1, 2], "v": [1, 2], "_corrupt_record": ["text", None]}
    pq.write_table(pa.table(table), tmp_path / "x/1.parquet")
    engine = Engine(home=tmp_path / "home", executor="local")
    engine.sql(
        "CREATE STREAM x (ts TIMESTAMP, id BIGINT, _corrupt_record STRING) TIMESTAMP BY ts "
        f"FROM parquet '{tmp_path}/x'; CREATE QUERY q AS SELECT x.id, x._corrupt_record AS v FROM x WINDOW 1 SECOND;"
        "CREATE QUERY other AS SELECT x.id FROM x WINDOW 1 SECOND;"
    )
    with engine:
        engine.run_once()
    assert found(tmp_path) == [(1, "text"), (2, None)]
    for kind in ("csv", "json", "xml", "kafka"):
        with pytest.raises(ModelError, match=f"_corrupt_record cannot be a column of {kind} input"):
            Stream("x", (Column("at", "bigint"), Column("_Corrupt_Record", "string")), "at", source=Source(kind, "x"))


def test_an_option_of_sparks_reader_that_tasks_do_not_have_is_rejected() -> None:
    for path, is_rejected in (("x/*.parquet", True), ("file:///x", True), ("s3a://bucket/x", False)):
        source = Source("parquet", path, (("datetimeRebaseMode", "LEGACY"),))
        with pytest.raises(ModelError, match="CORRECTED, not LEGACY") if is_rejected else contextlib.nullcontext():
            check_file_source(Stream("x", (Column("at", "bigint"),), "at", source=source))
