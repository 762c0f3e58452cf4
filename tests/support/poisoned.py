"""An engine in this process with five healthy queries, beside which a test adds one that fails.

Each tick may be a life of its own, so that whatever a failure leaves behind is met by a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tests.support.parquet_input import append_file, seconds_after_epoch
from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.home.manifest import Suspension, load_newest
from watersmeet.model import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAIR = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE"
HEALTHY = {
    "plain": f"SELECT l.id AS a, r.id AS b {_PAIR} l.k = r.k",
    "filtered": f"SELECT l.id AS a, r.id AS b {_PAIR} l.k = r.k AND l.id % 3 = 1",
    "computed": f"SELECT l.id + r.id AS a, l.k * 2 AS b {_PAIR} l.k = r.k",
    "theta": f"SELECT l.id AS a, r.id AS b {_PAIR} l.k = r.k AND l.id < r.id",
    "single": "SELECT l.id AS a, l.k AS b FROM l [RANGE 0 SECONDS] l WHERE l.k > 1",
}
_ORACLE = {
    "plain": "SELECT l.id, r.id FROM l, r WHERE {near} AND l.k = r.k",
    "filtered": "SELECT l.id, r.id FROM l, r WHERE {near} AND l.k = r.k AND l.id % 3 = 1",
    "computed": "SELECT l.id + r.id, l.k * 2 FROM l, r WHERE {near} AND l.k = r.k",
    "theta": "SELECT l.id, r.id FROM l, r WHERE {near} AND l.k = r.k AND l.id < r.id",
    "single": "SELECT l.id, l.k FROM l WHERE l.k > 1",
}
_NEAR = "abs(epoch(l.ts) - epoch(r.ts)) <= 10"
_COLUMNS = (
    "ts TIMESTAMP, id BIGINT, k BIGINT, s STRING, n INT, list ARRAY<BIGINT>, raw BINARY, d DOUBLE, "
    "struct STRUCT<x: BIGINT>"
)
VICTIM = "victim"


def repeated(text: str, times: int) -> str:
    """A string that is 100 ** times as long."""
    return f"repeat({repeated(text, times - 1)}, 100)" if times else text


SLOW = f"if(r.n > 50, length(sha2({repeated('r.s', 3)}, 256)), r.n)"  # about 20 ms for a row with a large n
HUGE = f"if(r.n > 50, length({repeated('r.s', 4)}), r.n)"  # 600 MB for such a row


@dataclass
class Poisoned:
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, tuple[str, Sink | None]] = field(default_factory=dict)  # queries besides the healthy ones
    rows: int = 0
    second: int = 0
    spark: SparkSession | None = None

    def __post_init__(self) -> None:
        for name in ("l", "r"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def declare(self, select: str, sink: Sink | None = None, name: str = VICTIM) -> None:
        self.declared[name] = select, sink

    def engine(self) -> Engine:
        settings: dict[str, Any] = {
            "executor": "local",
            "plan_seconds": 0.05,
            "tick": "1 millisecond",
            "stop_seconds": PATIENCE,
            **self.options,
        }
        engine = Engine(self.spark, home=self.home, **settings)
        for name in ("l", "r"):
            engine.sql(
                f"CREATE STREAM {name} ({_COLUMNS}) TIMESTAMP BY ts LATENESS INTERVAL '1' SECOND "
                f"FROM parquet '{self.folder / name}';"
            )
        for name, sql in HEALTHY.items():
            engine.query(name, sql)
        for name, (sql, sink) in self.declared.items():
            engine.query(name, sql, sink)
        return engine

    @contextmanager
    def running(self) -> Iterator[Engine]:
        with self.engine() as engine:
            yield engine

    def feed(self, count: int = 8, **values: Any) -> None:
        """A file of each stream; `values` are for the columns of r that a test wants to poison."""
        self.second += 1
        for name in ("l", "r"):
            ids = range(self.rows, self.rows + count)
            poisoned = values if name == "r" else {}
            columns = {
                "ts": seconds_after_epoch([self.second] * count),
                "id": pa.array(ids, pa.int64()),
                "k": pa.array([at % 4 for at in range(count)], pa.int64()),
                "s": poisoned.get("s", pa.array([f"row {at}" for at in ids])),
                "n": pa.array([poisoned.get("n", 3)] * count, pa.int32()),
                "list": pa.array([[1, 2]] * count, pa.list_(pa.int64())),
                "raw": pa.array([b"\x00\xff"] * count, pa.binary()),
                "d": pa.array([poisoned.get("d", 0.5)] * count, pa.float64()),
                "struct": pa.array([{"x": 1}] * count, pa.struct([("x", pa.int64())])),
            }
            append_file(self.folder / name, pa.table(columns))
        self.rows += count

    def live(self, **values: Any) -> None:
        """Rows arrive, and an engine that starts now processes them and stops."""
        self.feed(**values)
        with self.running() as engine:
            engine.run_once()

    @property
    def suspended(self) -> dict[str, Suspension]:
        return load_newest(self.home).suspended

    def is_suspended(self, engine: Engine) -> bool:
        """After a tick without rows, if a suspension waits for one."""
        engine.settle(0)
        return bool(self.suspended)

    def reason(self, name: str = VICTIM) -> str:
        assert set(self.suspended) == {name}, self.suspended
        return self.suspended[name].reason

    def check(self, when: str = "") -> None:
        """The healthy queries have the oracle's results."""
        with duckdb.connect() as oracle:
            for name in ("l", "r"):
                files = f"read_parquet('{self.folder / name}/*.parquet')"
                oracle.execute(f"CREATE TABLE {name} AS SELECT ts::TIMESTAMP AS ts, id, k FROM {files}")
            for name, sql in _ORACLE.items():
                expected = Counter(oracle.execute(sql.format(near=_NEAR)).fetchall())
                assert self.results(name) == expected, f"{name} {when}"
                assert expected

    def results(self, name: str = VICTIM) -> Counter[tuple[Any, ...]]:
        with duckdb.connect() as reader:
            return Counter(reader.execute(f"FROM read_parquet('{self.home}/results/{name}/*.parquet')").fetchall())
