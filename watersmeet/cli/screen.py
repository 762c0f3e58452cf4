"""Running an engine in a terminal: signals, the spinner at the start, the live view or plain lines."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from watersmeet.engine import Engine
from watersmeet.terminal import visible_lines

WAIT = 1  # seconds between two looks, so that a log gets one line a second at most


class StopRequest:
    """Ctrl-C and SIGTERM as a wish that the running tick ends first; a second one ends the process at once.

    Ending at once is safe too: what a tick has not committed, the next run repeats.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: dict[int, Any] = {}
        self.wanted = False

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            self._console.show_cursor(True)
            sys.stdout.flush()
            os._exit(128 + number)
        self.wanted = True


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
def step(console: Console, what: str) -> Iterator[None]:
    """Says what is going on while it takes its time: a spinner on a terminal, else one line."""
    if console.is_terminal:
        with console.status(f"{what} …"):
            yield
    else:
        say(console, f"{what} …")
        yield


def start_spark(console: Console, engine: Engine) -> None:
    """Start Spark where its tasks are to process rows: it takes some seconds."""
    if engine.options.executor == "spark":
        with step(console, "starting Spark"):
            _ = engine.spark


@_loaded_for_good()
def show_until(
    console: Console, finished: Callable[[], bool], draw: Callable[[], RenderableType], line: Callable[[], str]
) -> None:
    """Show an engine until `finished`, which is asked again and again and takes its time to answer.

    `line` may return the same text as before, which is then not repeated.
    """
    if console.is_terminal:
        # Results that a query prints go above the view, not through it.
        with Live(get_renderable=draw, console=console, refresh_per_second=4, transient=True):
            while not finished():
                pass
        return
    shown = ""
    while not finished():
        text = line()
        if text != shown:
            say(console, text)
        shown = text


def say(console: Console, text: str) -> None:
    """A line as it is: no markup, no wrapping, not held back in a buffer."""
    console.print(visible_lines(text), markup=False, highlight=False, soft_wrap=True)
    console.file.flush()
