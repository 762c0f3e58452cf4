"""Kills from Kafka to Kafka: of the driver, of tasks and of the broker. A read_committed consumer sees the oracle's
results, each once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.support.brokers.kafka import KafkaBroker, running_broker
from tests.support.faults.kafka_program import JOIN, STREAMS
from tests.support.faults.strikes import Strikes
from tests.support.faults.victim import end_leftovers
from tests.support.processes import ROOT, environment, kill_tree
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.connectors

TICK = ["positions.before", "tick.begin", "gather.after", "probe.after", "manifest.draft", "manifest.linked"]
AFTER = ["publish.before", "discard.before", "tick.end"]
DELIVERY = ["target.open", "target.recovered", "target.commit", "target.written", "target.acknowledged"]
DELIVERY += ["target.committed", "delivery.known"]


class Flow:
    """Input topics, a topic of results, and programs that are killed between them."""

    def __init__(self, folder: Path, broker: KafkaBroker, prefix: str, say: Callable[[str], None]) -> None:
        self.folder, self.broker, self.prefix, self.say = folder, broker, prefix, say
        self.kills: list[str] = []
        self.starts = 0
        self._chance = random.Random(1)
        self._rows: dict[str, list[dict[str, int]]] = {stream: [] for stream in STREAMS}
        for topic in (*STREAMS, "results"):
            broker.create(f"{prefix}{topic}", 3)

    def feed(self, count: int = 60) -> None:
        for stream, rows in self._rows.items():
            chance = self._chance.randrange
            new = [{"id": len(rows) + at, "k": chance(20), "item": chance(20)} for at in range(count)]
            rows.extend(new)
            texts = [json.dumps({"at": "2030-01-01T00:00:00Z", **row}).encode() for row in new]
            self.broker.send(f"{self.prefix}{stream}", list(texts))

    def run(self, *kills: str, executor: str = "local", partitions: int = 1) -> int:
        """Start the program and wait for its end; all kills have to happen. Returns its exit code."""
        self.starts += 1
        strikes, log = self.folder / f"strikes{self.starts}", self.folder / f"log{self.starts}"
        command = [sys.executable, "-m", "tests.support.faults.kafka_program", str(self.folder / "home")]
        command += ["--servers", self.broker.address, "--prefix", self.prefix, "--strikes", str(strikes)]
        command += ["--executor", executor, "--partitions", str(partitions), "--broker", str(self.broker.process_file)]
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
        assert sorted(happened) == sorted(kill.split(":")[0] for kill in kills), log.read_text()[-3000:]
        assert code == 0 or happened, log.read_text()[-3000:]
        if code == 0:
            assert "done" in log.read_text().splitlines(), log.read_text()[-3000:]
        self.kills += happened
        self.say(f"  start {self.starts}: {', '.join(kills) or 'no kill'}: {code}")
        return code

    def check(self) -> None:
        with duckdb.connect() as oracle:
            for stream, rows in self._rows.items():
                oracle.register(stream, pa.Table.from_pylist(rows))
            expected = Counter(oracle.execute(JOIN.replace("[RANGE 1 HOUR]", "")).fetchall())
        found: Counter[tuple[Any, ...]] = Counter()
        ticks: dict[tuple[Any, ...], set[bytes]] = {}
        for message in self.broker.messages(f"{self.prefix}results"):
            row = tuple(json.loads(message.value()).values())
            found[row] += 1
            ticks.setdefault(row, set()).add(dict(message.headers())["watersmeet.tick"])
        assert found == expected, f"{(expected - found).total()} missing, {(found - expected).total()} too many"
        assert expected.total() > 100


@pytest.fixture
def flow(broker: KafkaBroker, tmp_path: Path, say: Callable[[str], None]) -> Iterator[Flow]:
    say("")
    yield Flow(tmp_path, broker, f"flow-{tmp_path.name}-", say)
    end_leftovers(tmp_path)


def test_the_driver_is_killed_at_each_point(flow: Flow) -> None:
    """Each life has one tick or more, and dies in one of them or in its delivery."""
    for point in (*TICK, *AFTER, *DELIVERY):
        flow.feed(25)
        assert flow.run(f"{point}:1") != 0
    for point in ("target.written", "target.committed", "manifest.linked"):
        flow.feed(25)
        assert flow.run(f"{point}:2") != 0
    assert flow.run() == 0
    flow.check()
    assert len(flow.kills) == 19


def test_tasks_are_killed_while_they_read_and_deliver(flow: Flow) -> None:
    """A tick ends the engine if its task fails four times, so there are fewer kills in each life."""
    flow.feed()
    late = ["target.written:1", "target.committed:1"]
    for kills in ([f"{point}:1" for point in DELIVERY[:3]], [*late, "resident.order:3"], ["target.open:2", *late]):
        assert flow.run(*kills, executor="spark") == 0
        flow.check()
        flow.feed()
    assert flow.run("target.written:1:driver", executor="spark") != 0
    assert flow.run("target.committed:1:driver", executor="spark", partitions=3) != 0
    flow.feed()
    assert flow.run("target.open:1", executor="spark", partitions=3) == 0
    flow.check()
    assert len(flow.kills) == 12


def test_the_broker_is_killed(tmp_path: Path, say: Callable[[str], None]) -> None:
    """It comes back each time; a transaction whose outcome is not known is resolved by what it has then."""
    say("")
    with running_broker(tmp_path / "broker") as broker:
        flow = Flow(tmp_path, broker, "flow-", say)
        flow.feed()
        with broker.kept_alive():
            assert flow.run(*(f"{point}:1:broker" for point in ("target.commit", "target.written"))) == 0
            flow.feed()
            assert flow.run("target.acknowledged:1:broker", "tick.begin:2:broker", "target.open:1:broker") == 0
            flow.feed()
            assert flow.run("target.written:2:broker", "delivery.known:3") != 0
            assert flow.run() == 0
        flow.check()
        assert len(flow.kills) == 7
