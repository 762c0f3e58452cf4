"""A loss of power, without one: a layer below the product that remembers what was forced to disk.

While it is active it hears of each `fsync` and `syncfs`, and knows of each file the content that is on the disk, and
of each folder the entries. At any moment it gives *images*: what a computer may find that loses its power now. What was
not forced to disk may be there, partly there, empty or gone; a file that was renamed has its old name or the new one,
and one that was deleted may still be there, each independently of the order in which it happened.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watersmeet.home import disk

Image = dict[str, bytes | None]  # by name relative to the root: the content of a file, None for a folder
_folders: set[int] = set()  # the numbers of all that were seen
_Name = tuple[int, str]  # the number of a folder, and a name in it


@dataclass
class _Tree:
    """Files and folders by their number in the file system, as they are now."""

    contents: dict[int, bytes] = field(default_factory=dict)
    entries: dict[int, dict[str, int]] = field(default_factory=dict)

    def names(self) -> dict[int, set[_Name]]:
        found: dict[int, set[_Name]] = {}
        for folder, entries in self.entries.items():
            for name, number in entries.items():
                found.setdefault(number, set()).add((folder, name))
        return found


class PowerLayer:
    def __init__(self, root: Path) -> None:
        """What is below the root when the layer begins is on the disk."""
        self.root = root
        self.syncs = 0
        self._disk = _Tree()
        self._held: dict[int, int] = {}  # open files: a number that the disk knows is not given to another file
        self._lock = threading.RLock()
        self._top = root.stat().st_ino

    @contextmanager
    def active(self) -> Iterator[None]:
        real, real_all = os.fsync, disk._sync_file_system

        def fsync(fd: Any) -> None:
            real(fd)
            self._forced(fd)

        def syncfs(path: str) -> None:
            assert real_all is not None
            real_all(path)
            self._forced_all()

        self._forced_all()
        os.fsync, disk._sync_file_system = fsync, syncfs
        disk._durable.clear()
        try:
            yield
        finally:
            os.fsync, disk._sync_file_system = real, real_all
            for handle in self._held.values():
                os.close(handle)

    def _forced(self, handle: int) -> None:
        found = os.fstat(handle)
        with self._lock:
            self.syncs += 1
            path = os.readlink(f"/proc/self/fd/{handle}")
            if not path.startswith(str(self.root)):
                return
            self._hold(path, found.st_ino)
            if stat.S_ISDIR(found.st_mode):
                self._disk.entries[found.st_ino] = _entries(path)
            else:
                self._disk.contents[found.st_ino] = Path(path).read_bytes()

    def _forced_all(self) -> None:
        with self._lock:
            self.syncs += 1
            now = self._now(self._hold)
            self._disk.contents.update(now.contents)
            self._disk.entries.update(now.entries)

    def _hold(self, path: str, number: int) -> None:
        if number not in self._held:
            self._held[number] = os.open(path, os.O_RDONLY)

    def _now(self, seen: Callable[[str, int], None] = lambda path, number: None) -> _Tree:
        found = _Tree()
        for folder, _, files in os.walk(self.root):
            number = os.stat(folder).st_ino
            seen(folder, number)
            found.entries[number] = _entries(folder)
            for name in files:
                try:
                    path = os.path.join(folder, name)
                    seen(path, os.stat(path).st_ino)
                    found.contents[os.stat(path).st_ino] = Path(path).read_bytes()
                except FileNotFoundError:
                    continue  # another thread has renamed it
        return found

    def now(self) -> Image:
        """What programs see that still run."""
        with self._lock:
            tree = self._now()
        return _image(self._top, tree.entries, tree.contents)

    def after_cut(self, seed: int | None = None) -> Image:
        """What may be found after the power is cut now; without a seed, only what was forced to disk."""
        with self._lock:
            now, on_disk = self._now(), self._disk
            if seed is None:
                return _image(self._top, on_disk.entries, on_disk.contents)
            return self._some(now, random.Random(seed))

    def _some(self, now: _Tree, chance: random.Random) -> Image:
        before, after = self._disk.names(), now.names()
        chosen: dict[_Name, int] = {}
        for number in sorted(before.keys() | after.keys()):
            names, old = after.get(number, set()), before.get(number, set())
            for name in names if chance.random() < 0.5 else old:
                # What replaced another file may be there or not, but one of the two is.
                if name not in chosen or name in names:
                    chosen[name] = number
        for number, old in before.items():  # nothing vanishes that was replaced by what is not there
            for name in old - chosen.keys():
                if any(name in names for other, names in after.items() if other != number):
                    chosen[name] = number
        entries: dict[int, dict[str, int]] = {}
        for (folder, entry), number in chosen.items():
            entries.setdefault(folder, {})[entry] = number
        for number in now.entries.keys() | self._disk.entries.keys():
            entries.setdefault(number, {})
        contents = {}
        for number in now.contents.keys() | self._disk.contents.keys():
            forced = self._disk.contents.get(number, b"")
            written = now.contents.get(number, forced)
            if len(written) > len(forced) and chance.random() < 0.7:
                forced = written[: chance.randint(len(forced), len(written))]
            contents[number] = forced
        return _image(self._top, entries, contents)


def _entries(folder: str) -> dict[str, int]:
    with os.scandir(folder) as found:
        entries = list(found)
    _folders.difference_update(entry.inode() for entry in entries)  # a number may be given to another file
    _folders.update(entry.inode() for entry in entries if entry.is_dir())
    return {entry.name: entry.inode() for entry in entries}


def _image(folder: int, entries: dict[int, dict[str, int]], contents: dict[int, bytes], above: str = "") -> Image:
    found: Image = {}
    for name, number in entries.get(folder, {}).items():
        path = f"{above}{name}"
        if number in _folders:
            found[path] = None
            found |= _image(number, entries, contents, f"{path}/")
        else:
            found[path] = contents.get(number, b"")  # its name was forced to disk, and nothing of it
    return found


def restore(root: Path, image: Image) -> None:
    """Let a folder be what an image says."""
    shutil.rmtree(root)
    root.mkdir()
    for name, content in sorted(image.items()):
        path = root / name
        if content is None:
            path.mkdir(0o700, parents=True, exist_ok=True)
        else:
            path.write_bytes(content)
            path.chmod(0o600)
