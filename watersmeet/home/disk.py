"""Forcing files to disk, so that they survive a loss of power.

The only module that forces anything to disk. Few files are forced one by one, with the folders that name them. Many
are forced by one call for their whole file system (`syncfs`), which also waits for what other programs have written
there, and still takes a fifth of the time for 200 files (decision 16).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

FEW = 16  # files and folders together
# Errors of folders above ours: of other users, read-only, or in a file system that forces nothing to disk. This user
# has made nothing there.
_NOT_OURS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP}
_TRIES = 10  # to force folders to disk while others delete some of them

_durable: dict[str, tuple[int, int]] = {}  # folders that are on the disk themselves, by name: device and number


def sync(path: str | Path) -> None:
    """Force a file to disk, or the entries of a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:  # which does not say of what
        raise OSError(problem.errno, problem.strerror, str(path)) from None
    finally:
        os.close(handle)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it that do not exist.

    Nothing is known of it any more, nor of the one above, which somebody else may have made again: a new folder may
    have the name and the number of one that was deleted."""
    if not folder.is_dir():
        make_folder(folder.parent, mode)
        folder.mkdir(mode, exist_ok=True)
        for made in (folder, folder.parent):
            _durable.pop(str(made), None)


def sync_written(files: Iterable[str | Path]) -> None:
    """Force new files to disk, with the folders above them as far as those are new."""
    _sync_all(list(map(str, files)), ())


def sync_entries(folders: Iterable[str | Path]) -> None:
    """Force to disk what was renamed, made or deleted in folders. One that is gone has nothing to lose."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it is gone since it was looked for
            return _sync_all([], [str(folder) for folder in folders if os.path.isdir(folder)])


def sync_each(force: Callable[[list[str]], None], paths: Collection[str]) -> dict[str, OSError]:
    """As `sync_written` or `sync_entries`, but a path that fails is no reason to fail for the others. Returns those
    that do, and why.

    Paths that are gone are left out. None is tried again after it has failed: the operating system reports a lost write
    once, and the second call would succeed."""
    there = [path for path in paths if os.path.exists(path)]
    together = [[path] for path in there]
    if len(there) > FEW and _sync_file_system:
        by_disk: dict[int, list[str]] = {}
        for path in there:
            by_disk.setdefault(os.stat(path).st_dev, []).append(path)
        together = list(by_disk.values())
    failed: dict[str, OSError] = {}
    for some in together:
        try:
            force(some)
        except OSError as problem:
            failed |= dict.fromkeys(some, problem)
    return failed


class SyncBeside:
    """Forces something to disk while other work goes on."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None  # from the first time on
        self._running: Future[dict[str, str]] | None = None

    def begin(self, work: Callable[[], dict[str, str]]) -> None:
        self._thread = self._thread or ThreadPoolExecutor(1, "watersmeet sync")
        self._running = self._thread.submit(work)

    def wait(self) -> dict[str, str]:
        """Until that is done; returns what it has returned, and raises what went wrong."""
        running, self._running = self._running, None
        return running.result() if running is not None else {}

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
            try:
                sync(path)
            except OSError as problem:
                if problem.errno not in _NOT_OURS:
                    raise
    else:
        for path in {os.stat(path).st_dev: path for path in (*files, *within)}.values():
            _sync_file_system(path)
    for folder in (*within, *above):
        _durable[folder] = _identity(folder)


def _new_above(folder: str) -> Iterable[str]:
    """The folders that name a folder, and those above it, unless it is known that they are on the disk."""
    while (identity := _identity(folder)) != _durable.get(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        if _identity(folder)[0] != identity[0]:
            return  # something is mounted below it, where a folder has been all along
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
