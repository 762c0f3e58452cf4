"""A connector of one's own: results in a SQLite database, with the newest tick of each query beside them.

`docs/connectors.md` explains it. The file `<database>.down` stands for a database that cannot be reached.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator

import pyarrow as pa

from watersmeet import points
from watersmeet.errors import ModelError
from watersmeet.io.connectors.protocol import Sender, Undeliverable
from watersmeet.model import Output, Sink

_TABLES = """
CREATE TABLE IF NOT EXISTS results (query TEXT, tick INTEGER, result TEXT);
CREATE TABLE IF NOT EXISTS ticks (home TEXT, query TEXT, tick INTEGER, PRIMARY KEY (home, query));
"""


class SqliteTarget:
    def __init__(self, sender: Sender) -> None:
        assert sender.sink.path
        if os.path.exists(f"{sender.sink.path}.down"):
            raise ConnectionError("the database is down")
        if os.path.isdir(sender.sink.path):
            raise Undeliverable(f"{sender.sink.path} is a folder")
        self._sender = sender
        self._database = sqlite3.connect(sender.sink.path, isolation_level=None, check_same_thread=False)
        self._database.executescript(_TABLES)

    def recover(self) -> int:
        found = self._database.execute(
            "SELECT tick FROM ticks WHERE home = ? AND query = ?", (self._sender.home, self._sender.query)
        ).fetchone()
        return int(found[0]) if found else 0

    def commit(self, tick: int, rows: Iterator[pa.RecordBatch]) -> None:
        if os.path.exists(f"{self._sender.sink.path}.down"):
            raise ConnectionError("the database is down")
        database, sender = self._database, self._sender
        database.execute("BEGIN IMMEDIATE")
        try:
            for batch in rows:
                texts = ((sender.query, tick, json.dumps(row)) for row in batch.to_pylist())
                database.executemany("INSERT INTO results VALUES (?, ?, ?)", texts)
            database.execute("INSERT OR REPLACE INTO ticks VALUES (?, ?, ?)", (sender.home, sender.query, tick))
            points.reach("target.written")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._database.close()


class _Sqlite:
    def check(self, query: str, sink: Sink, outputs: tuple[Output, ...]) -> None:
        if not sink.path:
            raise ModelError(f"query {query}: INTO sqlite needs the path of a database")

    def open(self, sender: Sender) -> SqliteTarget:
        return SqliteTarget(sender)


CONNECTOR = _Sqlite()
