"""Running an engine in a terminal: signals, the spinner at the start, the live view or plain lines."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.status import Status

from watersmeet.cli.errors import ExitCode, Interrupted
from watersmeet.engine import Engine
from watersmeet.home.lock import home_lock
from watersmeet.terminal import visible_lines

WAIT = 1  # seconds between two looks
LOG_EVERY = 5.0  # seconds between two lines of a log
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GIVEN_UP = b"\nthe running tick is given up; the next start repeats it\n"


class StopRequest:
    """The handler of Ctrl-C, SIGTERM and SIGHUP: the running tick ends first; a second signal ends the process at once.

    Ending at once is safe too: what a tick has not committed, the next run repeats.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._handled = contextlib.ExitStack()
        self._terminals = [number for number in (1, 2) if os.isatty(number)]
        self.wanted = False

    def __enter__(self) -> StopRequest:
        self._handled.enter_context(_handling(_STOPPING, self._ask))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handled.close()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(self._terminals)
        if self.wanted:
            self._console.show_cursor(True)
            sys.stdout.flush()
            os.write(2, _GIVEN_UP)  # print would fail if the signal has interrupted another print
            os._exit(ExitCode.SIGNAL + number)
        self.wanted = True


@contextlib.contextmanager
def _handling(signals: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals, except those that the process ignores, as nohup has it ignore SIGHUP."""
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {each: found for each in signals if (found := signal.getsignal(each)) is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, found in before.items():
            signal.signal(each, found)


def _leave(terminals: Sequence[int]) -> None:
    """Write no more to terminals that are closed: that would be an error, and the engine is to stop without one."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in terminals:
        os.dup2(nowhere, number)
    os.close(nowhere)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


@contextlib.contextmanager
def _loaded_for_good() -> Iterator[None]:
    """What is loaded by now stays until the end, because the process is that of one engine. So a full collection, which
    comes in the middle of a tick, need not look at it: it would take as long as several small ticks."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _terminal_may_be_gone() -> Iterator[None]:
    """Around what only writes to the terminal: a window that was closed is no error of the engine."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in (errno.EIO, errno.EPIPE):
            raise


class _View(Live):
    """A live view that its own thread refreshes."""

    def refresh(self) -> None:
        with _terminal_may_be_gone():
            super().refresh()


@contextlib.contextmanager
def _shown(display: Live | Status) -> Iterator[None]:
    """Show something while something else goes on, which does not end with the terminal."""
    with _terminal_may_be_gone():
        display.start()
    try:
        yield
    finally:
        with _terminal_may_be_gone():
            display.stop()


@contextlib.contextmanager
def step(console: Console, what: str) -> Iterator[None]:
    """Show what a slow step does: a spinner on a terminal, else one line."""
    if console.is_terminal:
        with _shown(console.status(f"{what} …")):
            yield
    else:
        say(console, f"{what} …")
        yield


def start_spark(console: Console, engine: Engine) -> None:
    """Start Spark where its tasks are to process rows: it takes some seconds."""
    if engine.options.executor == "spark":
        with home_lock(engine.home):
            pass  # a home that is in use is rejected before all this
        with _handling((signal.SIGTERM, signal.SIGHUP), _interrupt), step(console, "starting Spark"):
            _ = engine.spark


@_loaded_for_good()
def show_until(
    console: Console,
    finished: Callable[[], bool],
    draw: Callable[[], RenderableType],
    line: Callable[[], str],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Show an engine until `finished`, which is asked again and again and takes its time to answer.

    `line` may return the same text as before, which is then not repeated.
    """
    if console.is_terminal:
        # Results that a query prints go above the view, not through it.
        with _shown(_View(get_renderable=draw, console=console, refresh_per_second=4, transient=True)):
            while not finished():
                pass
        return
    shown, due = "", clock()
    while not finished():
        if clock() < due:
            continue
        text = line()
        if text != shown:
            say(console, text)
            due = clock() + LOG_EVERY
        shown = text


def say(console: Console, text: str) -> None:
    """A line as it is: no markup, no wrapping, not held back in a buffer."""
    with _terminal_may_be_gone() if console.is_terminal else contextlib.nullcontext():
        console.print(visible_lines(text), markup=False, highlight=False, soft_wrap=True)
        console.file.flush()
