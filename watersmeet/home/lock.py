"""The lock of a home, held by the engine that runs on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from watersmeet.errors import StateError
from watersmeet.home import layout


@contextlib.contextmanager
def home_lock(home: Path) -> Iterator[None]:
    """Exclusive use of a home, given back by the operating system when the process ends in whatever way."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / layout.LOCK).open("a+") as file:
        if not _locked(file):
            file.seek(0)
            raise StateError(
                f"the home {home} is in use by process {file.read().strip() or 'unknown'}",
                hint="stop that engine first, or start with another --home",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _locked(file: IO[str]) -> bool:
    """Take the lock; retried a few times, because `is_running` of other processes holds it for a moment."""
    for wait in (0.02, 0.05, 0.1, None):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if wait is not None:
                time.sleep(wait)
    return False


def is_running(home: Path) -> bool:
    """Whether some process holds the lock of the home."""
    try:
        with (home / layout.LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as problem:
        raise StateError(f"the home {home} cannot be read", detail=str(problem)) from None
    return False
