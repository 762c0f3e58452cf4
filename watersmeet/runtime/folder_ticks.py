"""Ticks over streams that are folders: a thread that looks for new files and runs a batch when there are some.

It stands where Spark's StreamingQuery stands for other sources, and has those of its methods that the engine uses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.io.folders import Files, Folder, is_folder, load_positions, positions_path
from watersmeet.io.sources import missing_folder
from watersmeet.model import Stream
from watersmeet.runtime.spark import SparkRuntime
from watersmeet.sql import parse_duration


def reads_folders(home: Path, group: str, streams: Sequence[Stream]) -> bool:
    """Whether the engine reads the sources of a group itself. A group keeps the way in which it was begun."""
    if (home / "checkpoints" / group).exists():
        return False
    strange = [stream for stream in streams if not is_folder(stream)]
    if strange and positions_path(home, group).exists():
        raise missing_folder(strange[0]) or StateError(
            f"stream {strange[0].name} is a folder of Parquet files in this home, and is declared otherwise now",
            hint="declare it as it was, with no option but maxFilesPerTrigger, or use another --home",
        )
    return not strange


class FolderTicks:
    def __init__(self, runtime: SparkRuntime, group: str, streams: Sequence[Stream], tick: str, once: bool) -> None:
        self._runtime = runtime
        self._group = group
        self._once = once
        self._seconds = parse_duration(tick) / 1e6
        self._positions = load_positions(runtime.home, group)
        self._folders = {s.name: Folder(s, self._positions.taken.setdefault(s.name, set())) for s in streams}
        self._stopped = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticks of group {group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end, and raise what failed. With a time limit: whether it has come."""
        self._thread.join(timeout)
        if self._problem is not None:
            raise self._problem
        return None if timeout is None else not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._positions.batch > self._runtime.manifest.batches.get(self._group, -1):
                self._run_batch(self._positions.files)  # it was begun before a crash
            self._look()
            while not self._stopped.is_set():
                began = time.monotonic()
                files = {name: taken for name, folder in self._folders.items() if (taken := folder.take())}
                if files:
                    self._positions.begin(files)
                    self._run_batch(files)
                elif self._once:
                    return
                if not self._once:
                    self._stopped.wait(self._seconds - (time.monotonic() - began))
                    self._look()
        except Exception as problem:
            if not self._stopped.is_set():  # a batch that came too late is taken up at the next start
                self._problem = problem

    def _look(self) -> None:
        for folder in self._folders.values():
            folder.look()

    def _run_batch(self, files: Files) -> None:
        paths = {name: [self._folders[name].path(file) for file in names] for name, names in files.items()}
        self._runtime.run_files(self._group, paths, self._positions.batch)
