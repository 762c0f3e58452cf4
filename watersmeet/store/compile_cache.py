"""Where Numba keeps the loops that it has compiled, so that only the first start has to wait for them.

Beside the source if that can be written, which is Numba's own choice. Otherwise, before Numba is imported, it is given
the user's cache folder, else a private folder for temporary files; if there is none either, nothing is cached.
What is in a cache is run, so a folder that others may write into is not used.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SETTING = "NUMBA_CACHE_DIR"


def choose_cache() -> bool:
    """Name the folder for this process and those that it starts; False where no folder can be used."""
    given = os.environ.get(_SETTING)
    if (given and _can_write(Path(given))) or _is_ours(Path(__file__).parent / "__pycache__"):
        return True
    for folder in _candidates():
        if _is_ours(folder):
            os.environ[_SETTING] = str(folder)
            if "numba" in sys.modules:  # it has read its settings
                sys.modules["numba"].config.CACHE_DIR = str(folder)
            return True
    return False


def _candidates() -> Iterator[Path]:
    name = f"watersmeet-numba-{os.geteuid()}"
    if root := os.environ.get("XDG_CACHE_HOME"):
        yield Path(root) / name
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        yield Path.home() / ".cache" / name
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir()) / name


def _is_ours(folder: Path) -> bool:
    """Whether this process can write into the folder, and nobody else but the superuser can."""
    if not _can_write(folder):
        return False
    found = folder.lstat()
    is_closed = stat.S_ISDIR(found.st_mode) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_closed and found.st_uid in (os.geteuid(), 0)


def _can_write(folder: Path) -> bool:
    """Whether there is such a folder, or it can be made, and files can be made in it."""
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _announce_compiling() -> None:
    """Say once that the loops are compiled: it takes long, and the user sees nothing else meanwhile."""
    from numba.core import event  # noqa: PLC0415 - Numba reads its settings when it is imported

    class Announcement(event.Listener):
        def on_start(self, compiling: event.Event) -> None:  # not for loops that are in the cache
            if compiling.data["dispatcher"].py_func.__module__.startswith("watersmeet."):
                event.unregister("numba:compile", self)  # type: ignore[no-untyped-call]
                when = "once" if CACHED else "at every start, because no cache folder can be written"
                print(f"watersmeet: compiling its loops, {when}; about a minute", file=sys.stderr, flush=True)

        def on_end(self, compiling: event.Event) -> None:
            pass

    event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]


CACHED = choose_cache()
_announce_compiling()
