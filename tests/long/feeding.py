"""The world around a long run: a writer of input that deletes old files, and a reader that consumes results."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.parquet_input import seconds_after_epoch
from watersmeet.home import layout
from watersmeet.home.manifest import Manifest, load_newest

STREAMS = ("orders", "payments", "parcels")
ROWS = 20  # of a file
KEYS = 100
WINDOW = 10  # seconds, which is as many files
RETAINED = 20  # files of a stream that stay after they were read
AHEAD = 6  # files that wait for the engine


class Writer:
    """One file for each stream and period, a few ahead of the engine. Old files are deleted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.period = 0
        self.written: dict[str, list[pa.Table]] = {name: [] for name in STREAMS}
        self._deleted = 0
        self._chance = random.Random(1)
        for name in STREAMS:
            (folder / name).mkdir(parents=True)

    def write(self) -> None:
        for name in STREAMS:
            rows = self._rows()
            self.written[name].append(rows)
            draft = self.folder / name / "_draft"
            pq.write_table(rows, draft)
            draft.rename(self._file(name, self.period))
        self.period += 1

    def delete_old(self, read: int) -> None:
        for period in range(self._deleted, max(self._deleted, read - RETAINED)):
            for name in STREAMS:
                self._file(name, period).unlink()
            self._deleted = period + 1

    def _file(self, stream: str, period: int) -> Path:
        return self.folder / stream / f"{period:08d}.parquet"

    def _rows(self) -> pa.Table:
        return pa.table(
            {
                "ts": seconds_after_epoch([self.period + 0.9 * self._chance.random() for _ in range(ROWS)]),
                "id": pa.array(range(self.period * ROWS, (self.period + 1) * ROWS), pa.int64()),
                "k": pa.array([self._chance.randrange(KEYS) for _ in range(ROWS)], pa.int64()),
                "period": pa.array([self.period] * ROWS, pa.int64()),
            }
        )


class Reader:
    """Takes result files away once they are there, as a user does who has loaded them elsewhere."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.results: dict[str, list[pa.Table]] = {}

    def read(self) -> None:
        for folder in (self._home / layout.RESULTS).iterdir():
            self._take(folder, folder.name)
        self._take(self._home / layout.COUNTS, layout.COUNTS)

    def forget(self, query: str) -> None:
        """Remove the folder of a query that was dropped."""
        folder = layout.results(self._home, query)
        self._take(folder, query)
        for path in [*folder.rglob("*")][::-1]:
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()

    def _take(self, folder: Path, query: str) -> None:
        files = [path for path in folder.glob("*.parquet") if layout.tick_of(path.name) is not None]
        if files:
            self.results.setdefault(query, []).append(pa.concat_tables(map(pq.read_table, files)))
        for path in files:
            path.unlink()


def committed(home: Path) -> Manifest:
    """The newest manifest; older ones are deleted while they are looked for."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return load_newest(home)
        time.sleep(0.001)


def periods_read(manifest: Manifest) -> int:
    return min(manifest.totals.rows[name] for name in STREAMS) // ROWS
