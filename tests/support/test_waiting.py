"""The waits themselves: they end, and say why."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests import conftest
from tests.support.waiting import eventually, join


def test_eventually_returns_the_first_true_value() -> None:
    values = iter((0, "", None, 7, 8))
    assert eventually(lambda: next(values)) == 7


def test_eventually_fails_when_the_time_is_over() -> None:
    with pytest.raises(AssertionError, match=r"no answer came within 0\.05 seconds"):
        eventually(lambda: False, 0.05, "no answer came")


def test_a_thread_that_does_not_end_is_told() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=(60,), name="stubborn")
    thread.start()
    with pytest.raises(AssertionError, match="the thread stubborn did not end"):
        join(thread, 0.05)
    over.set()
    join(thread)


@pytest.mark.parametrize("wait", [lambda: time.sleep(60), threading.Event().wait], ids=["sleeps", "waits"])
def test_whatever_takes_too_long_is_interrupted(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]
) -> None:
    monkeypatch.setattr(conftest, "TEST_SECONDS", 0.1)
    with pytest.raises(conftest.TookTooLong), conftest.limited(request.node):
        wait()
