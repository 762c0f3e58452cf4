"""What a home remembers of its slices, where a change of queries fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet import Engine, WatersmeetError
from watersmeet.control import active_queries

BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)


def engine_on(folder: Path) -> Engine:
    """Two queries that found a slice store together."""
    (folder / "in").mkdir(exist_ok=True)
    engine = Engine(home=folder / "home", executor="local")
    engine.sql(f"CREATE STREAM s (v BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet '{folder / 'in'}'")
    engine.query("founder", "SELECT max(v) AS m FROM s [TUMBLE 1 MINUTE]")
    engine.query("reader", "SELECT sum(v) AS n FROM s [TUMBLE 1 MINUTE]")
    return engine


def read(engine: Engine, folder: Path, *seconds: int) -> None:
    """Rows at these seconds, whose values are the seconds."""
    rows = [{"v": second, "at": BEGIN + timedelta(seconds=second)} for second in seconds]
    pq.write_table(pa.Table.from_pylist(rows), folder / "in" / f"{seconds[0]}.parquet")
    engine.run_once()


def test_a_drop_that_cannot_be_logged_leaves_its_slices_to_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with engine_on(tmp_path) as engine:
        read(engine, tmp_path, 10, 20)
        engine.start()
        engine.drop("founder")
    with engine_on(tmp_path) as engine:
        read(engine, tmp_path, 30)
        engine.start()
        monkeypatch.setattr(active_queries, "append_entries", no_space)
        with pytest.raises(WatersmeetError, match="cannot be written"):
            engine.drop("reader")
        monkeypatch.undo()
    with engine_on(tmp_path) as engine:
        read(engine, tmp_path, 90)
    assert pq.read_table(tmp_path / "home" / "results" / "reader")["n"].to_pylist() == [10 + 20 + 30]
