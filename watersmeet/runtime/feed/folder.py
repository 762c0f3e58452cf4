"""A feed of streams that are folders: a thread that looks for new files and runs a tick when there are some."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.io.folders import Folder, is_folder
from watersmeet.io.positions import Files, load_positions
from watersmeet.io.sources import missing_folder
from watersmeet.model import Stream
from watersmeet.runtime.feed.batches import FileBatch
from watersmeet.runtime.loop import TickLoop

_OFTEN = 0.02  # seconds from one look into the folders to the next


def reads_folders(home: Path, group: str, streams: Sequence[Stream]) -> bool:
    """Whether tasks read the files of a group themselves. A group keeps the way in which it was begun."""
    if layout.checkpoint(home, group).exists():
        return False
    strange = [stream for stream in streams if not is_folder(stream)]
    if strange and layout.positions(home, group).exists():
        raise missing_folder(strange[0]) or StateError(
            f"stream {strange[0].name} is a folder of Parquet files in this home, but is declared differently now",
            hint="declare it as before, with no option other than maxFilesPerTrigger, or use another --home",
        )
    return not strange


class FolderFeed:
    """`alone` says whether no other feed runs ticks: then the next batch may be gathered before its turn."""

    def __init__(
        self,
        loop: TickLoop,
        group: str,
        streams: Sequence[Stream],
        seconds: float,
        once: bool,
        alone: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._group = group
        self._streams = tuple(streams)
        self._seconds = seconds
        self._once = once
        self._idle = seconds
        self._alone = alone
        self._positions = load_positions(loop.home, group)
        self._folders = {s.name: Folder(s, self._positions.taken.setdefault(s.name, set())) for s in streams}
        self._next: FileBatch | None = None  # taken, and not yet run
        self._stopped = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticks of group {group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, and raise what failed; False if the time was over first."""
        self._thread.join(timeout)
        if self._problem is not None:
            raise self._problem
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._positions.batch > self._loop.manifest.batches.get(self._group, -1):
                # It was begun before a crash.
                self._loop.run(self._batch(self._positions.batch, self._positions.files, lambda: None), self._ahead)
            self._look()
            while not self._stopped.is_set():
                began = time.monotonic()
                batch, self._next = self._next or self._take(), None
                if batch is not None:
                    self._loop.run(batch, self._ahead)
                elif self._once:
                    return
                if not self._once:
                    pause = self._seconds - (time.monotonic() - began) if batch is not None else self._idle
                    self._stopped.wait(pause)
                if self._next is None:
                    self._look()
        except Exception as problem:
            if not self._stopped.is_set():  # a batch that came too late is taken up at the next start
                self._problem = problem

    def _look(self) -> None:
        began = time.monotonic()
        for folder in self._folders.values():
            folder.look()
        # A new file is found soon, unless looking takes long: it takes at most a twentieth of the time.
        self._idle = min(self._seconds, max(_OFTEN, 20 * (time.monotonic() - began)))

    def _ahead(self) -> FileBatch | None:
        """The batch after the one that is probed now."""
        if self._alone() and not self._stopped.is_set():
            self._look()
            self._next = self._take()
        return self._next

    def _take(self) -> FileBatch | None:
        files = {name: taken for name, folder in self._folders.items() if (taken := folder.take())}
        if not files:
            return None
        # The batch that is probed now, if there is one, has been written down by now.
        return self._batch(self._positions.batch + 1, files, lambda: self._positions.begin(files))

    def _batch(self, number: int, files: Files, write_down: Callable[[], None]) -> FileBatch:
        paths = {name: [self._folders[name].path(file) for file in names] for name, names in files.items()}
        return FileBatch(self._group, number, self._streams, paths, self._loop.home, write_down)
