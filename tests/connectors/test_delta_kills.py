"""Kills from Delta to Delta: a reader of the table sees the oracle's results, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.faults.fixtures import say  # noqa: F401 - a fixture
from tests.support.faults.store_flow import StoreFlow
from tests.support.faults.victim import end_leftovers

TICK = ["positions.before", "tick.begin", "gather.after", "probe.after", "manifest.draft", "manifest.linked"]
AFTER = ["publish.before", "discard.before", "tick.end"]
DELIVERY = ["target.open", "target.recovered", "target.commit", "target.written", "target.committed", "delivery.known"]


@pytest.fixture
def flow(tmp_path: Path, say: Callable[[str], None]) -> Iterator[StoreFlow]:  # noqa: F811
    yield StoreFlow(tmp_path, say)
    end_leftovers(tmp_path)


@pytest.mark.soak
def test_three_kills(flow: StoreFlow) -> None:
    """Those that tell most: before the table has a tick, when it has it and nobody knows, and beside a compaction."""
    flow.feed(40)
    for point in ("target.written", "target.committed", "target.compact"):
        assert flow.run(f"{point}:1") != 0
        flow.feed(20)
    assert flow.run() == 0
    flow.check()
    assert len(flow.kills) == 3


@pytest.mark.soak
def test_the_driver_is_killed_at_each_point(flow: StoreFlow) -> None:
    for point in (*TICK, *AFTER, *DELIVERY, "target.compact"):
        flow.feed(25)
        assert flow.run(f"{point}:1") != 0
    assert flow.run() == 0
    flow.check()
    assert len(flow.kills) == 16


@pytest.mark.soak
def test_tasks_are_killed_while_they_read_and_deliver(flow: StoreFlow) -> None:
    """A task that fails four times makes its delivery wait, so there are fewer kills in each life."""
    flow.feed()
    for kills in (DELIVERY[:2], DELIVERY[2:4], DELIVERY[4:5]):
        assert flow.run(*(f"{point}:1" for point in kills), executor="spark") == 0
        flow.check()
        flow.feed(20)
    assert flow.run("target.written:1:driver", executor="spark") != 0
    flow.feed()
    assert flow.run("target.committed:1:driver", executor="spark", partitions=3) != 0
    assert flow.run("target.open:1", executor="spark", partitions=3) == 0
    flow.check()
    assert len(flow.kills) == 8
