"""Which files a folder has, at a cost that grows with what changes in it and not with all that it holds.

A folder whose date has not changed holds the names that it held, so it is not listed again. Two things a date does not
show: a name that came within the same instant of the file system's clock, and a file that is written to in place. For
both, every look also passes a few files of an endless round through all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Set
from itertools import islice

Entry = tuple[str, os.DirEntry[str]]  # the name relative to the root

_INSTANT = 100_000_000  # nanoseconds: the dates of file systems are finer than that,
_WHOLE_SECONDS = 2_000_000_000  # or they are those of an old one


class Listing:
    """The regular files below a folder, but those whose names say that they are not data, or not yet."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._dates: dict[str, int | None] = {"": None}  # by folder; None: it may have more than was seen
        self._fresh: list[str] = []  # folders that were found and not yet listed
        self._round: Iterator[Entry] = iter(())

    def news(self, seen: Set[str]) -> Iterator[Entry]:
        """The files that are not among those seen, of the folders that have changed since they were listed."""
        folders = list(self._dates)
        self._fresh = []
        for folder in folders:
            began = time.time_ns()
            try:
                date = os.stat(os.path.join(self._root, folder)).st_mtime_ns
            except OSError:
                if folder:
                    del self._dates[folder]
                continue
            if date == self._dates[folder]:
                continue
            instant = _INSTANT if date % 1_000_000_000 else _WHOLE_SECONDS
            self._dates[folder] = date if began - date > instant else None
            yield from self._files(folder, seen)
            folders += self._fresh
            self._fresh = []

    def some(self, most: int) -> Iterator[Entry]:
        """The next files of the round through all folders; the last of a round is followed by nothing."""
        passed = 0
        for entry in islice(self._round, most):
            passed += 1
            yield entry
        if passed < most:
            self._round = (entry for folder in list(self._dates) for entry in self._files(folder))

    def _files(self, folder: str, seen: Set[str] = frozenset()) -> Iterator[Entry]:
        before = f"{folder}/" if folder else ""
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                for entry in entries:
                    name = before + entry.name
                    if name in seen or entry.name.startswith((".", "_")) or entry.name.endswith("._COPYING_"):
                        continue
                    if _is_regular(entry):  # opening a pipe or a device could block
                        yield name, entry
                    elif entry.is_dir(follow_symlinks=False) and name not in self._dates:
                        self._dates[name] = None
                        self._fresh.append(name)
        except OSError:
            return  # gone since its date was read, or not ours to read


def _is_regular(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False  # a circle of links
