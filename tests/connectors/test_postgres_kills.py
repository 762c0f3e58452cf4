"""Kills from Delta to Delta and Postgres, of the driver, of tasks and of the server: readers see each result once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.faults.fixtures import say  # noqa: F401 - a fixture
from tests.support.faults.store_flow import StoreFlow
from tests.support.faults.strikes import IN_TURN
from tests.support.faults.victim import end_leftovers
from tests.support.stores.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors

DELIVERY = ["target.open", "target.recovered", "target.commit", "target.written", "target.committed", "delivery.known"]


@pytest.fixture
def flow(tmp_path: Path, say: Callable[[str], None], postgres: PostgresServer) -> Iterator[StoreFlow]:  # noqa: F811
    yield StoreFlow(tmp_path, say, postgres)
    end_leftovers(tmp_path)


def test_the_driver_is_killed_at_each_point(flow: StoreFlow) -> None:
    """Two targets: the first and the second pass of a point are one of each."""
    for point in DELIVERY:
        for number in (1, 2):
            flow.feed(25)
            assert flow.run(f"{point}:{number}") != 0
    assert flow.run() == 0
    flow.check()
    assert len(flow.kills) == 12


def test_tasks_are_killed_while_they_deliver(flow: StoreFlow) -> None:
    """A task that fails four times makes its delivery wait, so there are fewer kills in each life."""
    flow.feed()
    for kills in (DELIVERY[:3], DELIVERY[3:5], ["target.written", "target.written"]):
        assert flow.run(*(f"{point}:1" for point in kills), executor="spark") == 0
        flow.check()
        flow.feed(20)
    assert flow.run("target.written:2:driver", executor="spark") != 0
    assert flow.run() == 0
    flow.check()
    assert len(flow.kills) == 8


def test_the_server_is_killed(flow: StoreFlow) -> None:
    """It comes back each time; whether a transaction was committed is resolved by what it has then. What could not be
    delivered at once is delivered by the next life."""
    assert flow.server is not None
    kills = [f"{point}:{number}:broker" for point in DELIVERY[:5] for number in (1, 2)]
    with flow.server.kept_alive():
        for kill in (*kills, "tick.begin:1:broker"):
            flow.feed(20)
            assert flow.run(kill, all_is_delivered=False) == 0
            flow.server.wait()
        flow.feed(20)
        # In turn, as the other target may know of two ticks before this one has written any.
        assert flow.run(f"{IN_TURN}target.written:2:broker", f"{IN_TURN}delivery.known:1") != 0
        flow.server.wait()
        assert flow.run() == 0
    flow.check()
    assert len(flow.kills) == 13


def test_a_server_that_is_down_for_a_while(flow: StoreFlow) -> None:
    """Ticks continue, and the table beside gets its results; what waits is delivered by a later start."""
    assert flow.server is not None
    flow.feed()
    flow.server.kill()
    ended = threading.Event()

    def restart() -> None:
        ended.wait()
        assert flow.server is not None
        flow.server.start()

    restarter = threading.Thread(target=restart)
    restarter.start()
    try:
        assert flow.run("delivery.known:3") != 0  # of the table beside
    finally:
        ended.set()
        restarter.join()
    assert flow.run() == 0
    flow.check()
