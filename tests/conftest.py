"""One Spark session for the whole run, Hypothesis profiles, and a limit for each test.

The limit is the net below the tests' own ones: it ends calls of the product that would never return, such as
`run_once()`. An alarm of the operating system interrupts whatever Python code the main thread is in, also where it
waits for a lock, a process or Spark's socket. Spark takes no notice: it uses no such signal, and an alarm is not
inherited by a process that is forked. Code in C that does not return is not interrupted; `faulthandler_timeout` in
pyproject.toml at least shows where each thread is."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from collections.abc import Generator, Iterator
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.register_assert_rewrite("tests.support")

STDERR = 2
TEST_SECONDS = 600  # far beyond what the longest takes, also on a busy machine
LONG_TEST_SECONDS = 3600  # of ./run test-faults, test-cluster and test-long, and of a search
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=True
)
SEARCHED = int(os.environ.get("WATERSMEET_EXAMPLES", "2000"))  # for each test, in a search
settings.register_profile("search", deadline=None, max_examples=SEARCHED, suppress_health_check=list(HealthCheck))
settings.register_profile(  # for work on a failure: the first one found, as it is
    "quick", settings.get_profile("default"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(PROFILE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ticks", type=int, default=10_000, help="of ./run test-long")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`./run test` has two processes. One of them runs all tests with the Spark session, so that there is one session;
    the tests of any other file stay together, so that its fixtures are made once."""
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("spark" if needs_spark else str(item.path)))


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
