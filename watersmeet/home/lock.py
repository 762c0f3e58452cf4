"""The lock of a home, held by the engine that runs on it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.files import make_home, private

_TRIES = 10  # to lock a file that others delete
_log = logging.getLogger("watersmeet")


class HomeLock:
    """Two locks: of the file `lock`, and of the home folder itself, which nobody can delete under a running engine.
    Some file systems do not lock folders; there the file alone counts."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._file: int | None = None
        try:
            self._holds_folder = lock_folder(self._folder)
            if self._holds_folder is None:
                raise _in_use(home)
            self._file = self._locked_file()
        except BaseException:
            self.close()
            raise

    def _locked_file(self) -> int:
        path = self._home / layout.LOCK
        for _ in range(_TRIES):
            if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
                raise StateError(
                    f"{path} is no file, but a folder, a link or a pipe",
                    detail="The engine that runs on a home locks this file.",
                    hint="make sure that no engine runs on the home, delete it, and start again",
                )
            file = private(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                _make_ours(path, 0o600)  # whoever may read it could hold it
                if not _locked(file):
                    raise _in_use(self._home)
                if _is_at(file, path):
                    os.ftruncate(file, 0)
                    os.write(file, str(os.getpid()).encode())
                    return file
            except FileNotFoundError:
                pass  # deleted since it was opened
            except BaseException:
                os.close(file)
                raise
            os.close(file)
        raise StateError(f"{path} is deleted again and again", hint="find out what deletes it")

    def check(self) -> None:
        """Raises if another process could have taken the home since: before anything is committed."""
        if not _is_at(self._folder, self._home):
            raise StateError(
                f"the home {self._home} was moved, deleted or replaced while the engine ran",
                detail="Nothing of this tick is committed.",
                hint="start again with the home where it is now",
            )
        if self._file is None or _is_at(self._file, self._home / layout.LOCK):
            return
        lost = StateError(
            f"{self._home / layout.LOCK} was deleted or replaced while the engine ran; another one may use the home",
            detail="Nothing of this tick is committed.",
            hint="stop all engines that use the home, and start one",
        )
        if not self._holds_folder:
            raise lost
        _log.warning("%s was deleted while the engine ran; it is made again", self._home / layout.LOCK)
        try:
            again = self._locked_file()
        except StateError:
            raise lost from None
        os.close(self._file)
        self._file = again

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        os.close(self._folder)


@contextlib.contextmanager
def home_lock(home: Path) -> Iterator[HomeLock]:
    """Exclusive use of a home, given back by the operating system when the process ends in whatever way."""
    try:
        make_home(home)
        _make_ours(home, 0o700)
        lock = HomeLock(home)
    except OSError as problem:
        raise StateError(
            f"the home {home} cannot be made or used: {problem.strerror or problem}",
            detail=f"{problem.filename or home}",
            hint="name another --home, or make the folder usable for this user: it has to be writable",
        ) from None
    try:
        yield lock
    finally:
        lock.close()


def _in_use(home: Path) -> StateError:
    try:
        process = (home / layout.LOCK).read_text("ascii", "replace").strip() or "unknown"
    except OSError:
        process = f"unknown: {layout.LOCK} was deleted"
    if process == str(os.getpid()):  # cells of a notebook that are run again make a second engine
        return StateError(
            f"the home {home} is in use by process {process}, which is this one",
            hint="stop the engine that was started before, engine.stop(), or use another home",
        )
    return StateError(
        f"the home {home} is in use by process {process}",
        hint="stop that engine first, or start with another --home",
    )


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is what the path leads to now."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _make_ours(path: Path, mode: int) -> None:
    """Remove the permissions of other users, which a lax umask or an earlier version has given."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        _log.warning("%s belongs to another user, who may read and change what is in it", path)
    elif stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(mode)


def lock_folder(handle: int) -> bool | None:
    """Whether the folder is locked now; None if another process has locked it."""
    try:
        return True if _locked(handle) else None
    except OSError:
        return False  # this file system does not lock folders


def _locked(handle: int) -> bool:
    """Take the lock; retried a few times, because `is_running` of other processes holds it for a moment."""
    for wait in (0.02, 0.05, 0.1, None):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if wait is not None:
                time.sleep(wait)
    return False


def is_running(home: Path) -> bool:
    """Whether some process holds the lock of the home."""
    return _is_held(home, home / layout.LOCK) or _is_held(home, home)


def _is_held(home: Path, path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would have it wait
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        raise StateError(f"the home {home} cannot be read", detail=str(problem)) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as problem:
        if path == home:  # this file system does not lock folders
            return False
        raise StateError(f"the home {home} cannot be read", detail=str(problem)) from None
    finally:
        os.close(handle)
    return False
