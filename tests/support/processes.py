"""Processes that a test starts: all of them are ended by their ids, also when the test fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    """For a process that imports what the tests import, from whichever folder it is started."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def kill_tree(root: int) -> None:
    """SIGKILL to a process and everything below it. Not its group: Spark's Python workers leave that."""
    below = psutil.Process(root).children(recursive=True)
    me = os.getpid()
    for process in sorted([*below, psutil.Process(root)], key=lambda process: process.pid == me):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


class WatersmeetRun:
    """`watersmeet run …` as a user starts it, with its output in a file."""

    def __init__(self, arguments: tuple[object, ...], log: Path) -> None:
        self._log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "watersmeet.cli", "run", *map(str, arguments)],
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment(PYTHONUNBUFFERED="1"),
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def said(self) -> list[str]:
        return self._log.read_text().splitlines()

    def terminate(self) -> int:
        """SIGTERM to everything that belongs to the command, as a supervisor does it; returns the exit code."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def watersmeet_run(*arguments: object, log: Path) -> Iterator[WatersmeetRun]:
    run = WatersmeetRun(arguments, log)
    try:
        yield run
    finally:
        if not run.has_ended:
            try:
                run.terminate()
            except subprocess.TimeoutExpired:
                kill_tree(run.process.pid)
                run.process.wait(PATIENCE)


@contextlib.contextmanager
def python_process(program: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a program given as text; it is killed if it has not ended by then."""
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
