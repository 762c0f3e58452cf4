"""Memory and CPU time of a process with all that it started, looked at from outside a few times a second."""

from __future__ import annotations

import subprocess
import threading
import time
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

INTERVAL = 0.25
CLOSELY = 0.05  # for CPU time alone, of runs of a few seconds
_MEMORY_EVERY = 1.0  # second: adding up the pages of a large process takes a while


@dataclass
class Observed:
    """CPU seconds so far at each look; the most memory (pages shared by processes counted once) and files seen."""

    at: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: int = 0
    files: int = 0

    def cpu_within(self, begin: float, end: float) -> float:
        return self._cpu_at(end) - self._cpu_at(begin)

    def _cpu_at(self, moment: float) -> float:
        after = bisect_left(self.at, moment)
        if after == 0 or after == len(self.at):
            return self.cpu[min(after, len(self.at) - 1)]
        share = (moment - self.at[after - 1]) / (self.at[after] - self.at[after - 1])
        return self.cpu[after - 1] + share * (self.cpu[after] - self.cpu[after - 1])


def observe(
    running: subprocess.Popen[str], folder: Path | None, interval: float = INTERVAL
) -> tuple[Observed, threading.Thread]:
    """Look until the process ends; `folder` is where it keeps its state, if that can be seen."""
    seen = Observed()
    thread = threading.Thread(target=_look, args=(running, folder, seen, interval), daemon=True)
    thread.start()
    return seen, thread


def end_family(running: subprocess.Popen[str]) -> None:
    """End a process that still runs, and all that it started."""
    if running.poll() is None:
        root = psutil.Process(running.pid)
        for process in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        running.wait()


def _look(running: subprocess.Popen[str], folder: Path | None, seen: Observed, interval: float) -> None:
    spent: dict[int, float] = {}  # processes that have ended keep what they had spent
    looks, memory_every = 0, round(_MEMORY_EVERY / interval)
    while running.poll() is None:
        memory = 0
        try:
            root = psutil.Process(running.pid)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                times = process.cpu_times()
                spent[process.pid] = times.user + times.system
                if looks % memory_every == 0:
                    memory += process.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        seen.at.append(time.time())
        seen.cpu.append(sum(spent.values()))
        seen.memory = max(seen.memory, memory)
        if folder is not None:
            seen.files = max(seen.files, _size(folder))
        looks += 1
        time.sleep(interval)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # it was deleted meanwhile
            continue
    return total
