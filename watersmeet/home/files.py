"""Files that survive a crash: written whole or not at all, and logs of JSON lines whose last line may be torn.

A file that is written *whole* is for other processes of this run. What a later run relies on is *durable*: it is on
the disk before anything depends on it (`disk.py`). Logs come in two kinds. What the engine relies on is appended
durably, and a line that could not be written is taken back. *Advice* is for users or a better plan: it may be lost, and
no tick fails because of it.

Whatever the umask, nobody but the user of the engine may read or write them: a home is 0700, its files are 0600.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from watersmeet.home import layout
from watersmeet.home.disk import make_folder, sync, sync_entries

Version = tuple[int, int, int]


def private(path: str, flags: int) -> int:
    """Opens a file, for `open(…, opener=private)`, so that a new one is for this user only."""
    return os.open(path, flags, 0o600)


def make_private(folder: Path) -> None:
    """Make a folder that only this user may enter, and those above it that do not exist."""
    make_folder(folder, 0o700)


def make_home(home: Path) -> None:
    """Make the folder of a home, private to this user; missing folders above it have the permissions of the umask."""
    make_folder(home.parent)
    make_private(home)


def write_whole(path: Path, content: str | bytes, shared: bool = False) -> None:
    """Write a file that others either do not see or see whole. It may be lost, or empty, after a loss of power. One
    that is `shared` gets the umask's permissions."""
    _draft(path, content.encode() if isinstance(content, str) else content, shared).rename(path)


def replace_durably(path: Path, content: bytes) -> int:
    """Write a file, or replace it as a whole; it is on the disk afterwards. Returns its length."""
    draft = _draft(path, content)
    sync(draft)
    draft.rename(path)
    sync_entries([path.parent])
    return len(content)


def _draft(path: Path, content: bytes, shared: bool = False) -> Path:
    if not shared:
        make_private(path.parent)
    draft = layout.draft(path)
    with open(draft, "wb", opener=None if shared else private) as file:
        file.write(content)
    return draft


def line(record: Any) -> bytes:
    return json.dumps(record).encode() + b"\n"


def append_durably(path: Path, records: Iterable[Any]) -> None:
    """All of these lines are on the disk afterwards, or none is. A torn last line is cut off first."""
    append_line(path, b"".join(map(line, records)))


def append_line(path: Path, content: bytes) -> None:
    """Append a line, given as it stands in the file; it is on the disk afterwards, or it is not there."""
    make_private(path.parent)
    is_new = not path.exists()
    # A buffer would be written again when the file is closed.
    with open(path, "ab+", buffering=0, opener=private) as file:
        size = _cut_torn(file)
        try:
            while content:
                content = content[file.write(content) :]
            sync(path)
        except OSError:
            os.truncate(path, size)
            raise
    if is_new:
        sync_entries([path.parent])


def append(path: Path, records: Iterable[Any]) -> None:
    """Add lines in one piece, so that several processes may do it. A torn last line stays alone on its line."""
    make_private(path.parent)
    with open(path, "ab+", opener=private) as file:
        torn = b"" if _ends_whole(file) else b"\n"
        file.write(torn + b"".join(map(line, records)))


def append_advice(path: Path, records: Iterable[Any], longest: int | None = None) -> None:
    """Add lines, if that can be done, to a log that is rotated once it is longer than `longest` bytes."""
    with contextlib.suppress(OSError):
        if longest and path.exists() and path.stat().st_size > longest:
            path.replace(layout.rotated(path))
        append(path, records)


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a log but for a last one that is torn; none where there is no log."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1].splitlines()


def version_of(path: Path) -> Version | None:
    """A value that changes when lines are added or the file is replaced; None if the file is missing."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def advice_in(path: Path, most: int | None = None) -> Iterator[Any]:
    """The records of the last `most` lines; a line that is torn or being written is left out."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    for each in lines[-most:] if most else lines:
        with contextlib.suppress(ValueError):
            yield json.loads(each)


def cut_torn_line(path: Path) -> None:
    if path.exists():
        with path.open("rb+") as file:
            _cut_torn(file)


def _ends_whole(file: BinaryIO | FileIO) -> bool:
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _cut_torn(file: BinaryIO | FileIO) -> int:
    """Cut off a last line that is torn; the size of what is left."""
    if not _ends_whole(file):
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    return file.seek(0, os.SEEK_END)
