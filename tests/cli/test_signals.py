"""Signals that end `watersmeet run`: the first lets the running tick end, the second does not wait for it."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

import pytest
from rich.console import Console

from tests.cli.conftest import not_ignored
from watersmeet.cli.screen import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_second_signal_gives_the_tick_up_and_says_so(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def leave(code: int) -> NoReturn:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    with not_ignored(number), StopRequest(Console()) as stop:
        os.kill(os.getpid(), number)
        assert stop.wanted
        assert capfd.readouterr().err == ""
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), number)
    assert ended.value.code == 128 + number
    assert capfd.readouterr().err == "\nthe running tick is given up; the next start repeats it\n"


def test_nohup_is_obeyed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(Console()) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wanted
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_closed_is_not_written_to() -> None:
    master, terminal = os.openpty()
    mine = os.dup(1)
    try:
        os.dup2(terminal, 1)
        with not_ignored(signal.SIGHUP), StopRequest(Console()) as stop:
            os.close(master)  # the kernel sends the signal only to processes whose terminal it is
            with pytest.raises(OSError):
                os.write(1, b"tick 1")
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.wanted
            assert os.write(1, b"stopped") == 7
    finally:
        os.dup2(mine, 1)
        os.close(mine)
        os.close(terminal)
