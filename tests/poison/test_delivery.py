"""Results that cannot be printed or delivered suspend their query; values are printed as they are."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from tests.support.files_as_frames import FilesAsFrames
from tests.support.poisoned import VICTIM, Poisoned
from watersmeet import Engine
from watersmeet.model import Sink

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
PLAIN = f"SELECT l.id AS a, r.id AS b {JOIN}"


@pytest.fixture
def poisoned(tmp_path: Path) -> Poisoned:
    return Poisoned(tmp_path)


@pytest.mark.parametrize("text", ["[/x]", "[bold", "\x1b[2J\x1b]0;title\x07", "[link=x]y[/link]", "\\[", "\u202e"])
def test_markup_in_a_value_is_printed_as_it_is(
    poisoned: Poisoned, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    poisoned.declare(f"SELECT r.s AS `[/a]` {JOIN}", Sink("console", None))
    poisoned.live(s=pa.array([text] * 8))
    assert not poisoned.suspended
    printed = capsys.readouterr().out
    assert "\x1b]" not in printed and "\x1b[2J" not in printed
    assert text.isprintable() is (text in printed)
    poisoned.check()


def test_results_that_cannot_be_printed(poisoned: Poisoned) -> None:
    poisoned.declare(PLAIN, Sink("console", None))
    with mock.patch("rich.console.Console.print", side_effect=ValueError("no terminal")):
        poisoned.live()
    poisoned.live()
    assert "no terminal" in poisoned.reason()
    poisoned.live()
    poisoned.check()


def test_callable_that_raises(poisoned: Poisoned) -> None:
    """Its query is suspended; once it is resumed, it gets the tick again that it failed on."""
    poisoned.declare(PLAIN)
    ticks: list[int] = []
    works = False

    def deliver(files: object, tick: int) -> None:
        if tick >= 2 and not works:
            raise ValueError("no tick for me")
        ticks.append(tick)

    with mock.patch.object(Engine, "spark", FilesAsFrames()), poisoned.running() as engine:
        engine[VICTIM].foreach_tick(deliver)
        for _ in range(4):
            poisoned.feed()
            engine.run_once()
        assert "no tick for me" in poisoned.reason()
        assert poisoned.suspended[VICTIM].tick == 3  # the results of tick 2 are complete
        works = True
        engine.resume(VICTIM)
        poisoned.feed()
        engine.run_once()
        assert ticks[:2] == [1, 2] and ticks[2] >= 5
        poisoned.check()


def test_a_callable_that_raised_is_replaced_by_the_next(poisoned: Poisoned) -> None:
    poisoned.declare(PLAIN)
    ticks: list[int] = []

    def fail(files: object, tick: int) -> None:
        raise ValueError("a mistake")

    with mock.patch.object(Engine, "spark", FilesAsFrames()), poisoned.running() as engine:
        engine[VICTIM].foreach_tick(fail)
        for _ in range(2):
            poisoned.feed()
            engine.run_once()
        assert "a mistake" in poisoned.reason()
        engine[VICTIM].foreach_tick(lambda files, tick: ticks.append(tick))
        assert "the results of ticks 2 to" in engine.resume(VICTIM)
        poisoned.feed()
        engine.run_once()
        assert ticks[0] == 1 and len(ticks) > 1
        poisoned.check()
