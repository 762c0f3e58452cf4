"""Input tables, tables of results, and programs that are killed between them (`stores_program.py`)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.support.faults.stores_program import JOIN, RESULTS, STREAMS
from tests.support.faults.strikes import IN_TURN, Strikes
from tests.support.processes import ROOT, environment, kill_tree
from tests.support.stores.postgres_server import PostgresServer
from tests.support.waiting import PATIENCE

_AT = datetime(2030, 1, 1, tzinfo=UTC)
_SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("item", pa.int64())])


class StoreFlow:
    def __init__(self, folder: Path, say: Callable[[str], None], server: PostgresServer | None = None) -> None:
        self.folder, self.say, self.server = folder, say, server
        self.kills: list[str] = []
        self.starts = 0
        self._chance = random.Random(1)
        self._rows: dict[str, list[dict[str, object]]] = {stream: [] for stream in STREAMS}
        say("")

    def feed(self, count: int = 60) -> None:
        """A version of each table."""
        for stream, rows in self._rows.items():
            chance = self._chance.randrange
            new = [{"at": _AT, "id": len(rows) + at, "k": chance(20), "item": chance(20)} for at in range(count)]
            rows.extend(new)
            write_deltalake(self.folder / stream, pa.Table.from_pylist(new, schema=_SCHEMA), mode="append")

    def run(self, *kills: str, executor: str = "local", partitions: int = 1, all_is_delivered: bool = True) -> int:
        """Start the program and wait for its end; all kills have to happen. Returns its exit code."""
        self.starts += 1
        strikes, log = self.folder / f"strikes{self.starts}", self.folder / f"log{self.starts}"
        command = [sys.executable, "-m", "tests.support.faults.stores_program", str(self.folder / "home")]
        command += [str(self.folder), "--strikes", str(strikes), "--executor", executor]
        command += ["--partitions", str(partitions)]
        if self.server is not None:
            command += ["--postgres", json.dumps(self.server.settings), "--server", str(self.server.process_file)]
        for kill in kills:
            command += ["--kill", kill]
        with log.open("w") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=environment())
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            raise AssertionError(f"the program did not end\n{log.read_text()[-3000:]}") from None
        happened = Strikes(strikes).kills()
        ordered = sorted(kill.removeprefix(IN_TURN).split(":")[0] for kill in kills)
        assert sorted(happened) == ordered, log.read_text()[-3000:]
        assert code == 0 or happened, log.read_text()[-3000:]
        if code == 0 and all_is_delivered:
            assert log.read_text().splitlines()[-1] == "done {}", log.read_text()[-3000:]
        self.kills += happened
        self.say(f"  start {self.starts}: {', '.join(kills) or 'no kill'}: {code}")
        return code

    def check(self) -> None:
        """Readers of the tables see the oracle's results, each once."""
        with duckdb.connect() as oracle:
            for stream, rows in self._rows.items():
                oracle.register(stream, pa.Table.from_pylist(rows, schema=_SCHEMA))
            expected = Counter(oracle.execute(JOIN.replace("[RANGE 1 HOUR]", "")).fetchall())
        assert expected.total() > 100
        rows = DeltaTable(self.folder / RESULTS).to_pyarrow_table().to_pylist()
        _compare(Counter((row["o"], row["p"], row["c"]) for row in rows), expected)
        if self.server is not None:
            _compare(Counter(self.server.query(f"SELECT o, p, c FROM {RESULTS}")), expected)


def _compare(found: Counter[tuple[int, ...]], expected: Counter[tuple[int, ...]]) -> None:
    assert found == expected, f"{(expected - found).total()} missing, {(found - expected).total()} too many"
