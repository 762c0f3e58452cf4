"""Folders in which files appear half written, bad, or rewritten, with kills and restarts in between, against DuckDB."""

from __future__ import annotations

import os
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.deaths import dying_at, silent_threads
from tests.support.examples import seeds
from tests.support.inside import abandon, opened, run_feeds
from tests.support.parquet_input import seconds_after_epoch
from tests.support.two_streams import JOIN
from watersmeet import Engine
from watersmeet.io import folders, positions
from watersmeet.runtime.feed.retry_request import request_retry

SQL = """
CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts LATENESS 1 HOUR
FROM parquet '{folder}' WITH (maxFilesPerTrigger = 3);
"""
DEATHS = ("positions.before", "tick.begin", "commit.before", "manifest.linked", "publish.before", "tick.end", "")
BAD = b"no parquet"
OLD = 1_700_000_000


class Life:
    """What was written into the folders, and what of it has to be read: each file once, as it first was readable."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.read: dict[str, list[pa.Table]] = {"l": [], "r": []}
        self.half: list[tuple[Path, str, pa.Table]] = []  # files that are not complete
        self.whole: list[Path] = []
        self.number = 0
        for name in "lr":
            (folder / name).mkdir()

    def rows(self) -> pa.Table:
        count = self.random.randint(1, 8)
        self.number += count
        ids = range(self.number, self.number + count)
        keys = [self.random.randint(0, 4) for _ in ids]
        return pa.table(
            {
                "ts": seconds_after_epoch(number * 0.7 for number in ids),
                "id": pa.array(ids, pa.int64()),
                "k": pa.array(keys, pa.int64()),
            }
        )

    def act(self) -> None:
        name = self.random.choice("lr")
        what = self.random.choice(["whole", "whole", "half", "complete", "rewrite", "bad", "retry"])
        path = self.folder / name / f"{self.number}-{self.random.randint(0, 1 << 30)}"
        if what == "whole":
            self.write(path, name, self.rows())
        elif what == "half":
            rows = self.rows()
            content = encoded(rows)
            self.put(path, content[: self.random.choice([0, len(content) // 2])])
            self.half.append((path, name, rows))
        elif what == "complete" and self.half:
            self.write(*self.half.pop(self.random.randrange(len(self.half))))
        elif what == "rewrite" and self.whole:
            self.put(self.random.choice(self.whole), encoded(self.rows()))
        elif what == "bad":
            self.put(path, BAD)
        elif what == "retry" and (self.folder / "home/groups.json").exists():
            request_retry(self.folder / "home")

    def write(self, path: Path, name: str, rows: pa.Table) -> None:
        self.put(path, encoded(rows))
        self.read[name].append(rows)

    def put(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        second = OLD + self.random.randint(0, 10**6)
        os.utime(path, (second, second))

    def live(self, death: str) -> None:
        engine = Engine(home=self.folder / "home", executor="local", settle_seconds=0)
        for name in "lr":
            engine.sql(SQL.format(name=name, folder=self.folder / name))
        engine.query("q", JOIN)
        with dying_at(death), silent_threads():
            opened(engine)
            run_feeds(engine)
        abandon(engine)
        if not death:
            self.whole = [file for name in "lr" for file in (self.folder / name).iterdir() if self.is_whole(file)]

    def is_whole(self, file: Path) -> bool:
        return file.read_bytes() != BAD and file not in {path for path, *_ in self.half}

    def check(self) -> None:
        connection = duckdb.connect()
        for name, tables in self.read.items():
            connection.register(name, pa.concat_tables(tables))
        span = "abs(epoch_us(l.ts) - epoch_us(r.ts)) <= 10000000"
        expected = connection.sql(f"SELECT l.id, r.id FROM l, r WHERE l.k = r.k AND {span}").fetchall()
        files = (self.folder / "home/results/q").glob("*.parquet")
        found = [tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()]
        assert sorted(found) == sorted(expected)


def encoded(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


@pytest.mark.parametrize("seed", seeds(range(12)))
def test_every_file_is_read_once_whatever_happens_to_it(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "_LONG", 500)  # the log is rewritten now and then
    monkeypatch.setattr(folders, "_ROUND", 3)
    life = Life(tmp_path, seed)
    for name in "lr":
        life.write(tmp_path / name / "first", name, life.rows())
    for _ in range(15):
        for _ in range(life.random.randint(0, 4)):
            life.act()
        life.live(life.random.choice(DEATHS))
    while life.half:
        life.write(*life.half.pop())
    life.live("")
    life.live("")
    life.check()
