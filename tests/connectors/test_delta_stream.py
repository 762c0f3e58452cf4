"""FROM delta by an engine in this process: results equal the oracle's, whatever the ticks, restarts and deaths."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.deaths import Died, dying_at, silent_threads
from tests.support.earlier_version import lines_of, with_positions
from tests.support.inside import abandon
from tests.support.parquet_input import append_file, seconds_after_epoch
from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.errors import InputError, ModelError, SqlError, StateError
from watersmeet.home import layout
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.io.positions import load_positions

_COLUMNS = "ts TIMESTAMP, id BIGINT, k BIGINT"
_JOIN = "SELECT l.id AS a, r.id AS b FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
_ORACLE = "SELECT l.id, r.id FROM l, r WHERE abs(epoch(l.ts) - epoch(r.ts)) <= 10 AND l.k = r.k"


@dataclass
class Tables:
    """Two streams that are Delta tables, or one that is, and a folder."""

    folder: Path
    options: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    r_is_table: bool = True
    rows: dict[str, list[pa.Table]] = field(default_factory=lambda: {"l": [], "r": []})
    second: int = 0

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def append(self, count: int = 8) -> None:
        """A version of each."""
        self.second += 1
        for name in ("l", "r"):
            first = sum(table.num_rows for table in self.rows[name])
            columns = {
                "ts": seconds_after_epoch([self.second] * count),
                "id": pa.array(range(first, first + count), pa.int64()),
                "k": pa.array([at % 4 for at in range(count)], pa.int64()),
            }
            rows = pa.table(columns)
            self.rows[name].append(rows)
            if name == "l" or self.r_is_table:
                write_deltalake(self.folder / name, rows, mode="append")
            else:
                (self.folder / name).mkdir(exist_ok=True)
                append_file(self.folder / name, rows)

    def engine(self) -> Engine:
        engine = Engine(home=self.home, **{"executor": "local", "tick": "1 millisecond", **self.settings})
        for name in ("l", "r"):
            source = "delta" if name == "l" or self.r_is_table else "parquet"
            options = self.options if source == "delta" else ""
            engine.sql(
                f"CREATE STREAM {name} ({_COLUMNS}) TIMESTAMP BY ts LATENESS INTERVAL '1' HOUR "
                f"FROM {source} '{self.folder / name}' {options}"
            )
        engine.query("joined", _JOIN)
        return engine

    def live(self, accept: bool = False) -> Manifest:
        with self.engine() as engine:
            engine.run_once(accept=accept)
            return engine.newest

    def check(self, skipped: int = 0) -> None:
        """`skipped` versions of each table are not read."""
        with duckdb.connect() as oracle:
            for name, tables in self.rows.items():
                oracle.register(name, pa.concat_tables(tables[skipped:]))
            expected = Counter(oracle.execute(_ORACLE).fetchall())
        assert self.results() == expected
        assert expected

    def results(self) -> Counter[tuple[int, int]]:
        rows = pq.read_table(self.home / "results" / "joined").to_pylist()
        return Counter((row["a"], row["b"]) for row in rows)


@pytest.mark.parametrize("most", [None, 1, 5, 1000])
@pytest.mark.parametrize("partitions", [1, 3])
def test_results_are_the_oracles_whatever_the_ticks(tmp_path: Path, most: int | None, partitions: int) -> None:
    tables = Tables(tmp_path, f"WITH (maxRowsPerTick = {most})" if most else "", {"partitions": partitions})
    for _ in range(2):
        tables.append()
    tables.live()
    DeltaTable(tmp_path / "l").optimize.compact()
    tables.append()
    tables.append()
    manifest = tables.live()
    tables.check()
    if most:
        assert manifest.tick >= 32 / most


def test_with_a_folder_beside(tmp_path: Path) -> None:
    tables = Tables(tmp_path, r_is_table=False)
    for _ in range(3):
        tables.append()
        tables.live()
    tables.check()
    assert layout.positions(tables.home, "0").exists() and layout.positions(tables.home, "1").exists()


POINTS = ["positions.before", "tick.begin", "gather.after", "probe.after", "manifest.draft", "manifest.linked"]
POINTS += ["publish.before", "tick.end"]


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_any_point(tmp_path: Path, point: str) -> None:
    tables = Tables(tmp_path, "WITH (maxRowsPerTick = 3)")
    for at in range(4):
        tables.append()
        if at == 1:
            DeltaTable(tmp_path / "l").optimize.compact()
        engine = tables.engine()
        with dying_at(point), silent_threads():
            try:
                engine.start(once=True)
                engine.wait(PATIENCE)
            except Died:
                pass
        abandon(engine)
    tables.live()
    tables.check()


@pytest.mark.parametrize(("start", "skipped"), [("'latest'", 2), ("1", 1), ("'earliest'", 0)])
def test_where_a_home_begins(tmp_path: Path, start: str, skipped: int) -> None:
    tables = Tables(tmp_path, f"WITH (startingVersion = {start})")
    tables.append()
    tables.append()
    tables.live()  # with "latest" there is nothing to read, and it is known from now on where to begin
    tables.append()
    tables.append()
    tables.live()
    tables.check(skipped)


def test_what_a_tick_reads_is_written_down_before_it_begins(tmp_path: Path) -> None:
    tables = Tables(tmp_path, "WITH (maxRowsPerTick = 3)")
    tables.append()
    engine = tables.engine()
    with dying_at("tick.begin"), silent_threads():
        engine.start(once=True)
        engine.wait(PATIENCE)
    abandon(engine)
    log = load_positions(tables.home, "0")
    assert log.batch == 0 and load_newest(tables.home).tick == 0
    begin, end = log.extents["l"]
    assert (begin["version"], begin["row"], end["version"], end["row"]) == (0, 0, 0, 3)


def test_rows_that_are_deleted_stop_the_engine_and_lose_nothing(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.append()
    tables.live()
    DeltaTable(tmp_path / "l").delete("id = 3")
    tables.append()
    with pytest.raises(InputError, match=r"version 1 of the Delta table .* changes rows"):
        tables.live()
    tables.options = "WITH (skipChangeCommits = true)"
    tables.live(accept=True)
    tables.check()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("WITH (startingVersion = 'newest')", "the option startingVersion cannot be 'newest'"),
        ("WITH (maxRowsPerTik = 5)", "unknown option maxRowsPerTik for FROM delta"),
    ],
)
def test_options_that_are_wrong_are_rejected_at_once(tmp_path: Path, options: str, problem: str) -> None:
    with pytest.raises((ModelError, SqlError), match=problem):
        Tables(tmp_path, options).engine()


def test_a_table_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a Delta table"):
        Tables(tmp_path).live()


def test_positions_of_another_time_are_rejected(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.append()
    tables.live()
    layout.positions(tables.home, "0").unlink()
    with pytest.raises(Exception, match="they end before batch 0, which the state contains"):
        tables.live()


@pytest.mark.parametrize("begun", [True, False])
def test_a_home_of_an_earlier_version_resumes(tmp_path: Path, begun: bool) -> None:
    """Its log has other names, and each line the ranges of all streams; the last one may be of a batch that is not
    committed."""
    tables = Tables(tmp_path, "WITH (maxRowsPerTick = 3)")
    tables.append()
    tables.live()
    tables.append()
    if begun:
        engine = tables.engine()
        with dying_at("tick.begin"), silent_threads():
            engine.start(once=True)
            engine.wait(PATIENCE)
        abandon(engine)
    first, *lines = lines_of(tables.home)
    at = first["before"]
    earlier = [{"batch": -1, "ranges": {name: [position, position] for name, position in at.items()}}]
    for line in lines:
        ranges = {name: [position, position] for name, position in at.items()} | line["streams"]
        earlier.append({"batch": line["batch"], "ranges": ranges})
        at = {name: end for name, (_, end) in ranges.items()}
    with_positions(tables.home, "0.ranges.jsonl", earlier)
    tables.live()
    tables.append()
    tables.live()
    tables.check()
    assert [path.name for path in (tables.home / "positions").iterdir()] == ["0.ranges.jsonl"]


def test_a_folder_does_not_become_a_table(tmp_path: Path) -> None:
    """The rows that were read of the folder have no position in the table."""
    tables = Tables(tmp_path, r_is_table=False)
    tables.append()
    tables.live()
    tables.r_is_table = True
    write_deltalake(tmp_path / "r", tables.rows["r"][0], mode="append")
    with pytest.raises(StateError, match="the positions of stream r are not those of its source"):
        tables.live(accept=True)


def test_a_query_does_not_feed_itself(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.append()
    engine = tables.engine()
    with pytest.raises((ModelError, SqlError), match="is in the folder that stream l reads"):
        engine.sql(f"CREATE QUERY self INTO delta '{tmp_path / 'l' / 'x'}' AS {_JOIN}")
    engine.sql(f"CREATE QUERY other INTO delta '{tmp_path / 'out'}' AS {_JOIN}")
    with pytest.raises((ModelError, SqlError), match="is in the folder that stream more reads"):
        engine.sql(f"CREATE STREAM more ({_COLUMNS}) TIMESTAMP BY ts FROM delta '{tmp_path / 'out'}'")


def test_one_engine_reads_what_another_has_written(tmp_path: Path) -> None:
    """Compactions of the writer are no new rows for the reader."""
    tables = Tables(tmp_path / "writer")
    (tmp_path / "writer").mkdir()
    tables.append()
    out = tmp_path / "out"

    def write() -> None:
        with tables.engine() as engine:
            engine.sql(f"CREATE QUERY written INTO delta '{out}' WITH (compact = 2) AS SELECT l.ts AS ts, {_JOIN[7:]}")
            engine.run_once()

    def read() -> None:
        with Engine(home=tmp_path / "reader", executor="local") as engine:
            engine.sql(
                f"CREATE STREAM w (ts TIMESTAMP, a BIGINT, b BIGINT) TIMESTAMP BY ts "
                f"LATENESS INTERVAL '1' HOUR FROM delta '{out}'"
            )
            engine.query("all", "SELECT w.a AS a, w.b AS b FROM w [RANGE 0 SECONDS] w")
            engine.run_once()

    for _ in range(5):
        write()
        read()
        tables.append()
    write()
    read()
    tables.check()
    rows = pq.read_table(tmp_path / "reader" / "results" / "all").to_pylist()
    assert Counter((row["a"], row["b"]) for row in rows) == tables.results()
    assert any(entry["operation"] == "OPTIMIZE" for entry in DeltaTable(out).history())
