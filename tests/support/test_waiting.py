"""The waits themselves: they end, and say why."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests import conftest
from tests.support import waiting
from tests.support.waiting import eventually, happens, join


def test_eventually_returns_the_first_true_value() -> None:
    values = iter((0, "", None, 7, 8))
    assert eventually(lambda: next(values)) == 7


def test_eventually_fails_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    with pytest.raises(AssertionError, match=r"no answer came within 0\.05 seconds"):
        eventually(lambda: False, "no answer came")


def test_a_thread_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="stubborn")
    thread.start()
    with monkeypatch.context() as impatient, pytest.raises(AssertionError, match="the thread stubborn did not end"):
        impatient.setattr(waiting, "PATIENCE", 0.05)
        join(thread)
    over.set()
    join(thread)


def test_an_event_that_does_not_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    event = threading.Event()
    with monkeypatch.context() as impatient, pytest.raises(AssertionError, match="the event did not come"):
        impatient.setattr(waiting, "PATIENCE", 0.05)
        happens(event)
    event.set()
    happens(event)


def test_a_wait_ends_before_the_test_does() -> None:
    assert waiting.PATIENCE < conftest.TEST_SECONDS < conftest.LONG_TEST_SECONDS


@pytest.mark.parametrize("wait", [lambda: time.sleep(3600), threading.Event().wait], ids=["sleeps", "waits"])
def test_whatever_takes_too_long_is_interrupted(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]
) -> None:
    monkeypatch.setattr(conftest, "TEST_SECONDS", 0.1)
    with pytest.raises(conftest.TookTooLong), conftest.limited(request.node):
        wait()
