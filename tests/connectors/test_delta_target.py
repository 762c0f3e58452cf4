"""A Delta table as a target, without an engine: each tick once, whoever writes it, whatever happens to the table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.stores.results import EVERY_TYPE, batches, delta_sink, every_value, rows_of, sender
from watersmeet.errors import ModelError, RunError
from watersmeet.io.connectors.delta.connector import CONNECTOR
from watersmeet.io.connectors.delta.log import commit_file, read_commit
from watersmeet.io.connectors.protocol import Target, Undeliverable
from watersmeet.model import ColumnRef, Output


def found(table: Path) -> Counter[tuple[int, int]]:
    rows = DeltaTable(table).to_pyarrow_table(columns=["tick", "number"]).to_pylist()
    return Counter((row["tick"], row["number"]) for row in rows)


def expected(ticks: dict[int, int]) -> Counter[tuple[int, int]]:
    return Counter((tick, number) for tick, count in ticks.items() for number in range(count))


def opened(table: Path, **options: str) -> Target:
    return CONNECTOR.open(sender(delta_sink(table, **options)))


def test_a_tick_is_there_once_and_remembered(tmp_path: Path) -> None:
    table = tmp_path / "table"
    target = opened(table)
    assert target.recover() == 0
    target.commit(3, batches(rows_of(3, 2), rows_of(3, 0)))
    target.commit(7, batches(rows_of(7, 1)))
    target.commit(7, batches(rows_of(7, 1)))
    again = opened(table)
    assert again.recover() == 7
    again.commit(3, batches(rows_of(3, 2)))
    assert found(table) == expected({3: 2, 7: 1})


def test_others_who_write_the_table_do_not_matter(tmp_path: Path) -> None:
    table = tmp_path / "table"
    target = opened(table)
    other = CONNECTOR.open(sender(delta_sink(table), home="ffff0000"))
    target.commit(1, batches(rows_of(1, 1)))
    assert other.recover() == 0
    other.commit(1, batches(rows_of(1, 1)))
    write_deltalake(table, pa.Table.from_batches([rows_of(9, 1)]), mode="append")
    target.commit(2, batches(rows_of(2, 1)))
    assert found(table) == expected({1: 1, 2: 1, 9: 1}) + expected({1: 1})


def test_of_two_processes_that_write_a_tick_one_succeeds(tmp_path: Path) -> None:
    """One was cut off while it wrote; the other one takes its place and is faster."""
    table = tmp_path / "table"
    slow, fast = opened(table), opened(table)

    def interrupted() -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(1) as process:
            process.submit(fast.commit, 5, batches(rows_of(5, 3))).result()
        yield rows_of(5, 3)

    with pytest.raises(RunError, match="Concurrent transaction failed"):
        slow.commit(5, interrupted())
    assert found(table) == expected({5: 3})
    assert opened(table).recover() == 5


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["new", "repeat", "skip", "reopen", "stranger"]), st.integers(0, 3)), max_size=12
    ),
    compact=st.sampled_from(["0", "2", "3"]),
)
@example(moves=[("new", 0), ("stranger", 0), ("repeat", 0), ("new", 0)], compact="0")
def test_each_tick_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, int]], compact: str
) -> None:
    table = tmp_path_factory.mktemp("table")
    target, tick, ticks = opened(table, compact=compact), 0, {}
    strangers: Counter[tuple[int, int]] = Counter()
    for move, count in moves:
        if move == "new":
            tick += 1
            ticks[tick] = count
            target.commit(tick, batches(rows_of(tick, count)))
        elif move == "repeat" and tick:
            target.commit(tick, batches(rows_of(tick, ticks[tick])))
        elif move == "skip":
            tick += count
            ticks[tick] = ticks.get(tick, 0)
        elif move == "reopen":
            target = opened(table, compact=compact)
        elif move == "stranger":
            write_deltalake(table, pa.Table.from_batches([rows_of(-1, 1)]), mode="append")
            strangers[-1, 0] += 1
    committed = {tick: count for tick, count in ticks.items() if count}
    assert found(table) == expected(committed) + strangers


def test_every_type_is_the_one_that_spark_has(tmp_path: Path) -> None:
    table = tmp_path / "table"
    target = CONNECTOR.open(sender(delta_sink(table), schema=EVERY_TYPE))
    target.commit(1, batches(every_value()))
    back = DeltaTable(table).to_pyarrow_table()
    for field in EVERY_TYPE:
        assert str(back.column(field.name).to_pylist()) == str(every_value().column(field.name).to_pylist()), field.name
    types = {field["name"]: field["type"] for field in json.loads(DeltaTable(table).schema().to_json())["fields"]}
    simple = {name: kind for name, kind in types.items() if isinstance(kind, str)}
    assert simple == {
        "yes": "boolean",
        "tiny": "byte",
        "small": "short",
        "whole": "integer",
        "long": "long",
        "single": "float",
        "double": "double",
        "amount": "decimal(38,10)",
        "text": "string",
        "bytes": "binary",
        "day": "date",
        "moment": "timestamp",
        "local": "timestamp_ntz",
    }
    assert CONNECTOR.open(sender(delta_sink(table), schema=EVERY_TYPE)).recover() == 1


def test_a_table_with_its_columns_in_another_order_and_case(tmp_path: Path) -> None:
    table = tmp_path / "table"
    DeltaTable.create(table, pa.schema([("TEXT", pa.string()), ("Number", pa.int32()), ("tick", pa.int64())]))
    opened(table).commit(1, batches(rows_of(1, 2)))
    assert DeltaTable(table).to_pyarrow_table().to_pylist() == [
        {"TEXT": "0", "Number": 0, "tick": 1},
        {"TEXT": "1", "Number": 1, "tick": 1},
    ]


def test_a_table_with_other_columns_is_rejected(tmp_path: Path) -> None:
    table = tmp_path / "table"
    DeltaTable.create(table, pa.schema([("tick", pa.int32()), ("more", pa.string())]))
    outputs = (
        Output("tick", "bigint", ColumnRef("tick", "bigint")),
        Output("text", "string", ColumnRef("text", "string")),
    )
    with pytest.raises(ModelError) as caught:
        CONNECTOR.check("books", delta_sink(table), outputs)
    assert "its column tick is integer, not long" in caught.value.detail
    assert "it has no column text" in caught.value.detail
    assert "the query has no column more" in caught.value.detail
    with pytest.raises(Undeliverable, match="has no column number"):
        opened(table)


def test_a_folder_with_other_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match="neither a Delta table nor empty"):
        CONNECTOR.check("books", delta_sink(tmp_path), (Output("tick", "bigint", ColumnRef("tick", "bigint")),))


def test_partitions(tmp_path: Path) -> None:
    table = tmp_path / "table"
    opened(table, partition_by="NUMBER").commit(1, batches(rows_of(1, 3)))
    assert DeltaTable(table).metadata().partition_columns == ["number"]
    assert found(table) == expected({1: 3})


def test_small_files_are_compacted_and_no_reader_of_changes_notices(tmp_path: Path) -> None:
    table = tmp_path / "table"
    target = opened(table, compact="10")
    for tick in range(1, 26):
        target.commit(tick, batches(rows_of(tick, 1)))
    assert found(table) == expected(dict.fromkeys(range(1, 26), 1))
    assert len(DeltaTable(table).file_uris()) < 10
    compactions = [
        version
        for version in range(DeltaTable(table).version() + 1)
        if "OPTIMIZE" in commit_file(table, version).read_text()
    ]
    assert len(compactions) == 2
    for version in compactions:
        commit = read_commit(table, version)
        assert commit is not None and not commit.files and not commit.changes
    assert opened(table).recover() == 25


def test_the_tick_is_remembered_when_the_log_is_a_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "table"
    target = opened(table, compact="0")
    for tick in (4, 5):
        target.commit(tick, batches(rows_of(tick, 1)))
    DeltaTable(table).create_checkpoint()
    for version in range(DeltaTable(table).version()):
        commit_file(table, version).unlink()
    assert opened(table).recover() == 5


def test_without_compaction_no_version_but_the_ticks(tmp_path: Path) -> None:
    table = tmp_path / "table"
    target = opened(table, compact="0")
    for tick in range(1, 6):
        target.commit(tick, batches(rows_of(tick, 1)))
    assert DeltaTable(table).version() == 5


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"compact": "often"}, "the option compact cannot be 'often'"),
        ({"vacuum_hours": "-1"}, "the option vacuum_hours cannot be '-1'"),
        ({"partition_by": "nowhere"}, "the option partition_by names nowhere"),
        ({"partition_by": "tick"}, "the option partition_by names all columns"),
    ],
)
def test_options_that_are_wrong(tmp_path: Path, options: dict[str, str], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        CONNECTOR.check(
            "books", delta_sink(tmp_path, **options), (Output("tick", "bigint", ColumnRef("tick", "bigint")),)
        )
