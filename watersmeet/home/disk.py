"""What is on the disk, and not only in the operating system's memory: it survives a loss of power.

The only module that forces anything to disk. Few files are forced one by one, with the folders that name them. Many
are forced by one call for their whole file system (`syncfs`), which also waits for what other programs have written
there, and still takes a fifth of the time for 200 files (decision 16).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

FEW = 16  # files and folders together
_TRIES = 10  # to force folders to disk while others delete some of them

_durable: dict[str, tuple[int, int]] = {}  # folders that are on the disk themselves, by name: device and number


def sync(path: str | Path) -> None:
    """Force a file to disk, or the entries of a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_written(files: Iterable[str | Path]) -> None:
    """Force new files to disk, with the folders above them as far as those are new."""
    _sync_all(list(map(str, files)), ())


def sync_entries(folders: Iterable[str | Path]) -> None:
    """Force to disk what was renamed, made or deleted in folders. One that is gone has nothing to lose."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it is gone since it was looked for
            return _sync_all([], [str(folder) for folder in folders if os.path.isdir(folder)])


class SyncBeside:
    """Forces the entries of folders to disk while other work goes on."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None  # from the first time on
        self._running: Future[None] | None = None

    def begin(self, folders: Collection[str]) -> None:
        if folders:
            self._thread = self._thread or ThreadPoolExecutor(1, "watersmeet sync")
            self._running = self._thread.submit(sync_entries, folders)

    def wait(self) -> None:
        """Until they are on the disk; raises what went wrong."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def _sync_all(files: list[str], folders: Iterable[str]) -> None:
    within = dict.fromkeys((*map(os.path.dirname, files), *folders))
    above = dict.fromkeys(parent for folder in within for parent in _new_above(folder))
    if len(files) + len(within) + len(above) <= FEW or not _sync_file_system:
        for path in (*files, *within):
            sync(path)
        for path in above:
            with contextlib.suppress(PermissionError):  # of others: this user has made nothing there
                sync(path)
    else:
        for path in {os.stat(path).st_dev: path for path in (*files, *within)}.values():
            _sync_file_system(path)
    for folder in (*within, *above):
        _durable[folder] = _identity(folder)


def _new_above(folder: str) -> Iterable[str]:
    """The folders that name a folder, and those above it, unless it is known that they are on the disk."""
    while _durable.get(folder) != _identity(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        yield folder


def _identity(folder: str) -> tuple[int, int]:
    found = os.stat(folder)
    return found.st_dev, found.st_ino


def _syncfs() -> Callable[[str], None] | None:
    """`syncfs` of the C library, if it has one."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return None

    def sync_file_system(path: str) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            if call(handle):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        finally:
            os.close(handle)

    return sync_file_system


_sync_file_system = _syncfs()
