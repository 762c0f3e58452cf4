"""One Spark session for each process of tests, and a limit for each test.

The limit is the net below the tests' own ones: it ends calls of the product that would never return, such as
`run_once()`. An alarm of the operating system interrupts whatever Python code the main thread is in, also where it
waits for a lock, a process or Spark's socket. Spark takes no notice: it uses no such signal, and an alarm is not
inherited by a process that is forked. Code in C that does not return is not interrupted; `faulthandler_timeout` in
pyproject.toml at least shows where each thread is."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
from collections.abc import Generator, Iterator
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.register_assert_rewrite("tests.support")
from tests.support.examples import PROFILE, load_profile  # noqa: E402 - after the line above

STDERR = 2
TEST_SECONDS = 1800  # far beyond what the longest takes, also on a slow and busy machine
LONG_TEST_SECONDS = 4 * 3600  # of ./run test-faults, test-cluster and test-long, and of a search

load_profile()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ticks", type=int, default=10_000, help="of ./run test-long")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.random)


class TookTooLong(BaseException):
    """Not an `Exception`: neither the product nor Hypothesis, which would try it again, may catch it."""


@contextlib.contextmanager
def limited(item: pytest.Item) -> Iterator[None]:
    is_long = PROFILE == "search" or any(
        item.get_closest_marker(name) for name in ("soak", "cluster", "semantics", "long", "connectors")
    )
    seconds = LONG_TEST_SECONDS if is_long else TEST_SECONDS

    def ring(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(STDERR)
        raise TookTooLong(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    # Once more every minute: Python drops an exception that is raised while an object is deleted.
    signal.setitimer(signal.ITIMER_REAL, seconds, 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with limited(item):
        return (yield)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from watersmeet.session import make_session  # noqa: PLC0415 - most tests need no Spark

    session = make_session("local[4,4]")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def no_resident_is_left() -> Iterator[None]:
    """An engine that a test did not stop would hold slots of the session that the next test counts on."""
    yield
    for executor in list(getattr(sys.modules.get("watersmeet.runtime.exec.spark"), "_executors", ())):
        executor.close()
