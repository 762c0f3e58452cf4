"""A row that is far ahead of its stream and of the clock does not move the watermark: it is set aside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet import Engine
from watersmeet.model import Column, Stream
from watersmeet.store.retention import limits_ahead

SECOND = timedelta(seconds=1)
NOW = datetime.now(UTC).replace(microsecond=0)
FAR = datetime(9000, 1, 1, tzinfo=UTC)
QUERY = "SELECT l.id AS left_id, r.id AS right_id FROM l, r WHERE l.id = r.id WINDOW 10 SECONDS"


class Run:
    """Streams l and r, both of (ts, id) rows. Each tick is a run of its own, of an engine that is started again."""

    def __init__(self, folder: Path, clause: str = "") -> None:
        self.folder, self.clause, self.ticks = folder, clause, 0
        for name in "lr":
            (folder / name).mkdir()

    def tick(self, **rows: list[tuple[datetime, int]]) -> dict[str, int]:
        """One more file of some streams; what of l was set aside so far."""
        self.ticks += 1
        for name, some in rows.items():
            columns = {
                "ts": pa.array([at for at, _ in some], pa.timestamp("us", tz="UTC")),
                "id": pa.array([number for _, number in some], pa.int64()),
            }
            pq.write_table(pa.table(columns), self.folder / name / f"{self.ticks}.parquet")
        with Engine(home=self.folder / "home", executor="local") as engine:
            for name in "lr":
                engine.sql(
                    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT) TIMESTAMP BY ts LATENESS 1 SECOND {self.clause} "
                    f"FROM parquet '{self.folder / name}';"
                )
            engine.query("q", QUERY)
            engine.run_once()
            return dict(engine.stats().streams[0].set_aside)

    def results(self) -> list[int]:
        files = (self.folder / "home/results/q").glob("*.parquet")
        return sorted(number for file in files for number in pq.read_table(file)["left_id"].to_pylist())


@pytest.mark.parametrize("begin", [NOW - timedelta(minutes=1), datetime(2010, 3, 1, tzinfo=UTC)])
@pytest.mark.parametrize("poisoned", [1, 3])
def test_one_row_of_the_year_9000_changes_nothing_for_others(tmp_path: Path, begin: datetime, poisoned: int) -> None:
    run = Run(tmp_path)
    found: dict[str, int] = {}
    for tick in range(1, 6):
        rows = [(begin + tick * SECOND, tick)]
        found = run.tick(l=rows + [(FAR, 100)] * (tick == poisoned), r=rows)
    assert found == {"too far ahead": 1}
    assert run.results() == [1, 2, 3, 4, 5]
    kept = [row for file in (tmp_path / "home/rejected/l").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert [(row["id"], row["rejected_because"]) for row in kept] == [(100, "too far ahead")]


def test_a_stream_may_continue_after_a_pause_and_run_into_the_future_step_by_step(tmp_path: Path) -> None:
    run = Run(tmp_path)
    times = [
        datetime(2010, 3, 1, tzinfo=UTC),
        NOW - SECOND,
        *(NOW + timedelta(hours=20 * step) for step in range(1, 5)),
    ]
    for number, at in enumerate(times):
        assert run.tick(l=[(at, number)], r=[(at, number)]) == {}
    assert run.results() == list(range(6))
    beyond = times[-1] + timedelta(hours=25)
    assert run.tick(l=[(beyond, 6)]) == {"too far ahead": 1}


@pytest.mark.parametrize(("clause", "aside"), [("AHEAD UNBOUNDED", {}), ("AHEAD 2 HOURS", {"too far ahead": 1})])
def test_the_limit_is_part_of_the_declaration(tmp_path: Path, clause: str, aside: dict[str, int]) -> None:
    run = Run(tmp_path, clause)
    assert run.tick(l=[(NOW, 1), (NOW + timedelta(hours=3), 2), (NOW + timedelta(hours=1), 3)]) == aside


def test_the_limit_follows_the_later_of_clock_and_stream() -> None:
    columns = (Column("ts", "timestamp"),)
    streams = [Stream(name, columns, "ts", ahead=ahead) for name, ahead in (("a", 5), ("b", 5), ("c", 5), ("d", None))]
    limits = limits_ahead(streams, {"a": 90, "b": 110, "d": 1}, now=100)
    rows = np.array([99, 1000])
    assert {name: limit.above(rows) for name, limit in limits.items()} == {"a": 105, "b": 115, "c": 105}


def test_a_stream_may_begin_in_another_time_than_the_clocks(tmp_path: Path) -> None:
    """A clock that is behind, or data of some years from now; but no year 9000."""
    run = Run(tmp_path)
    begin = NOW + timedelta(days=3000)
    assert run.tick(l=[(FAR, 0)], r=[(FAR, 0)]) == {"too far ahead": 1}
    assert run.tick(l=[(begin, 1), (begin + SECOND, 2), (FAR, 3)], r=[(begin, 1), (begin, 2)]) == {"too far ahead": 2}
    assert run.tick(l=[(begin + SECOND, 4), (begin + timedelta(days=2), 5)], r=[(begin, 4)]) == {"too far ahead": 3}
    assert run.results() == [1, 2, 4]
