"""A Delta table as a source, without an engine: the rows that its versions add, each once, between logged positions."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InputError, ModelError
from watersmeet.io.connectors.delta.log import commit_file
from watersmeet.io.connectors.delta.source import DeltaSource
from watersmeet.io.source import Extent, History, Position
from watersmeet.model import Column, Source, Stream

COLUMNS = (Column("at", "timestamp"), Column("K", "bigint"), Column("day", "date"))


def stream(table: Path, *, columns: tuple[Column, ...] = COLUMNS, options: dict[str, str] | None = None) -> Stream:
    return Stream("events", columns, "at", source=Source("delta", str(table), tuple((options or {}).items())))


def append(table: Path, first: int, count: int, **options: object) -> None:
    rows = pa.table(
        {
            "at": pa.array(range(first, first + count), pa.timestamp("us", "UTC")),
            "k": pa.array(range(first, first + count), pa.int64()),
            "day": pa.array([date(2024, 1, 1 + number % 3) for number in range(first, first + count)], pa.date32()),
        }
    )
    write_deltalake(table, rows, mode="append", **options)  # type: ignore[call-overload]


def opened(stream: Stream, at: Position = None) -> DeltaSource:
    """A source that continues at a position as it was read back from the log, or begins."""
    source = DeltaSource(stream)
    source.resume(History(json.loads(json.dumps(at))))
    return source


def read_all(source: DeltaSource, most: int = 10**9) -> list[int]:
    """Everything that can be taken."""
    found: list[int] = []
    source.look()
    while (extent := source.take()) is not None:
        rows = rows_of(source, extent)
        assert len(rows) <= most
        assert all(row["day"] == date(2024, 1, 1 + row["K"] % 3) for row in rows)
        found += [row["K"] for row in rows]
    return found


def rows_of(source: DeltaSource, extent: Extent) -> list[dict[str, Any]]:
    pieces = source.pieces(extent, 1)
    return [row for piece in pieces for batch in piece.read(source.stream, {}) for row in batch.to_pylist()]


@given(
    before=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    after=st.lists(st.one_of(st.integers(1, 20), st.just("compact"), st.just("resume")), max_size=8),
    most=st.integers(1, 30),
    start=st.sampled_from(["earliest", "latest", "1"]),
    partitions=st.sampled_from([None, ["day"]]),
)
def test_each_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[int],
    after: list[int | str],
    most: int,
    start: str,
    partitions: list[str] | None,
) -> None:
    table, next_row = tmp_path_factory.mktemp("table"), 0
    starts = []
    for count in before:
        starts.append(next_row)
        append(table, next_row, count, partition_by=partitions, target_file_size=200)
        next_row += count
    first = {"earliest": 0, "latest": next_row, "1": starts[1] if len(starts) > 1 else next_row}[start]
    options = {"startingVersion": start, "maxRowsPerTick": str(most)}
    source = opened(stream(table, options=options))
    found: list[int] = []
    for move in after:
        if move == "compact":
            DeltaTable(table).optimize.compact()
        elif move == "resume":
            source = opened(stream(table, options=options), source.position)
        else:
            assert isinstance(move, int)
            append(table, next_row, move)
            next_row += move
        found += read_all(source, most)
    found += read_all(source, most)
    assert Counter(found) == Counter(range(first, next_row))


def test_rows_that_are_deleted_or_updated_stop_the_tick(tmp_path: Path) -> None:
    append(tmp_path, 0, 5)
    source = opened(stream(tmp_path))
    found = read_all(source)
    assert sorted(found) == [0, 1, 2, 3, 4]
    DeltaTable(tmp_path).delete("k = 3")
    with pytest.raises(InputError, match=r"version 1 .* DELETE removes or rewrites 1 file") as caught:
        read_all(source)
    assert "skipChangeCommits" in caught.value.hint


def test_versions_that_change_rows_can_be_left_out(tmp_path: Path) -> None:
    append(tmp_path, 0, 5)
    source = opened(stream(tmp_path, options={"skipChangeCommits": "true"}))
    read_all(source)
    DeltaTable(tmp_path).update(predicate="k = 3", updates={"k": "33"})
    append(tmp_path, 6, 1)
    assert read_all(source) == [6]


def test_a_snapshot_has_what_is_left_of_earlier_changes(tmp_path: Path) -> None:
    append(tmp_path, 0, 5)
    DeltaTable(tmp_path).delete("k = 3")
    source = opened(stream(tmp_path))
    assert sorted(read_all(source)) == [0, 1, 2, 4]


def test_a_snapshot_is_the_same_after_later_changes(tmp_path: Path) -> None:
    """A home that has read a part of it continues with the files of that version."""
    for first in (0, 5):
        append(tmp_path, first, 5)
    options = {"maxRowsPerTick": "3", "skipChangeCommits": "true"}
    source = opened(stream(tmp_path, options=options))
    at = source.position
    assert source.take() is not None
    DeltaTable(tmp_path).delete("k >= 0")
    again = opened(stream(tmp_path, options=options), at)
    assert sorted(read_all(again)) == list(range(10))


def test_files_that_were_vacuumed_too_early(tmp_path: Path) -> None:
    append(tmp_path, 0, 5)
    source = opened(stream(tmp_path))
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(InputError, match="is gone, and its rows were not read yet"):
        read_all(source)


def test_versions_that_are_gone_from_the_log(tmp_path: Path) -> None:
    append(tmp_path, 0, 5)
    source = opened(stream(tmp_path))
    read_all(source)
    for first in (5, 6, 7):
        append(tmp_path, first, 1)
    DeltaTable(tmp_path).create_checkpoint()
    for version in (0, 1, 2):
        commit_file(tmp_path, version).unlink()
    again = opened(stream(tmp_path), source.position)
    with pytest.raises(InputError, match=r"version 1 .* is gone from its log"):
        read_all(again)
    fresh = opened(stream(tmp_path))
    assert sorted(read_all(fresh)) == list(range(8))


@pytest.mark.parametrize("running", [True, False])
def test_a_table_that_was_created_again(tmp_path: Path, running: bool) -> None:
    table = tmp_path / "table"
    append(table, 0, 5)
    source = opened(stream(table))
    read_all(source)
    table.rename(tmp_path / "old")
    for first in range(5):
        append(table, first, 1)
    with pytest.raises(InputError, match="is another Delta table by now"):
        if running:
            read_all(source)
        else:
            opened(stream(table), source.position)


def test_a_column_that_comes_later_is_null_before(tmp_path: Path) -> None:
    append(tmp_path, 0, 1)
    more = pa.table({"at": pa.array([1], pa.timestamp("us", "UTC")), "k": [1], "day": [date(2024, 1, 2)], "new": ["x"]})
    write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    source = opened(stream(tmp_path, columns=(*COLUMNS, Column("new", "string"))))
    assert [row["new"] for row in rows_of(source, source.take())] == [None, "x"]


def test_tables_that_the_stream_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a Delta table"):
        opened(stream(tmp_path / "nowhere"))
    append(tmp_path, 0, 1)
    with pytest.raises(InputError, match="has no column more") as caught:
        opened(stream(tmp_path, columns=(*COLUMNS, Column("more", "int"))))
    assert "Its columns: at, k, day." in caught.value.detail
    with pytest.raises(InputError, match="has k as BIGINT; the stream declares STRING"):
        opened(stream(tmp_path, columns=(COLUMNS[0], Column("k", "string"))))


def test_rows_of_deletion_vectors_and_renamed_columns_are_not_guessed(tmp_path: Path) -> None:
    append(tmp_path, 0, 2)
    source = opened(stream(tmp_path))
    read_all(source)
    actions = [json.loads(line) for line in commit_file(tmp_path, 0).read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    commit_file(tmp_path, 1).write_text(json.dumps({"add": {**add, "deletionVector": vector}}) + "\n")
    with pytest.raises(InputError, match="deletes rows of a file"):
        read_all(source)
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    renaming = {**metadata, "configuration": {"delta.columnMapping.mode": "name"}}
    commit_file(tmp_path, 1).write_text(json.dumps({"metaData": renaming}) + "\n")
    with pytest.raises(InputError, match="cannot be read: columns with other names in its files"):
        read_all(source)


def test_times_as_spark_used_to_write_them(tmp_path: Path) -> None:
    append(tmp_path, 0, 1)
    file = next(tmp_path.glob("*.parquet"))
    rows = pq.read_table(file)
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    source = opened(stream(tmp_path))
    assert read_all(source) == [0]


def test_a_file_that_is_not_as_its_table_is_named(tmp_path: Path) -> None:
    """By a writer that is not Delta's. It belongs to the table, so it is not set aside."""
    append(tmp_path, 0, 1)
    file = next(tmp_path.glob("*.parquet"))
    rows = pq.read_table(file)
    source = opened(stream(tmp_path))
    nanoseconds = pa.array([-1], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    pq.write_table(rows.set_column(0, "at", nanoseconds), file)
    (row,) = rows_of(source, source.take())
    assert row["at"] == datetime(1969, 12, 31, 23, 59, 59, 999999)
    for bad, because in (
        (rows.set_column(1, "k", pa.array([1.5])), "has K as DOUBLE; the stream declares BIGINT"),
        (rows.append_column("K", pa.array([1])), "has 2 columns for K: k, K"),
    ):
        pq.write_table(bad, file)
        with pytest.raises(InputError, match=f"{file.name} {because}(.|\\n)*Hint: replace the file"):
            read_all(opened(stream(tmp_path)))


@pytest.mark.parametrize(
    ("option", "value"), [("startingVersion", "newest"), ("maxRowsPerTick", "0"), ("skipChangeCommits", "maybe")]
)
def test_options_that_are_wrong(tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(ModelError, match=f"the option {option} cannot be '{value}'"):
        DeltaSource(stream(tmp_path, options={option: value}))
