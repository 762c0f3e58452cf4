"""Which files a folder has, at a cost that grows with what changes in it and not with all that it holds.

Where the operating system reports changes (watch.py), a folder is listed once, and then only names that are reported
are looked at. Elsewhere a folder whose date has not changed holds the names that it held, so it is not listed again.
Two things a date does not show: a name that came within the same instant of the file system's clock, and a file that
is written to in place. For these, and for whatever is not reported, every look also passes a few files of an endless
round through all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Set
from itertools import islice

from watersmeet.io.watch import FolderWatch, Followed

Entry = tuple[str, str | os.DirEntry[str]]  # the name relative to the root, and where the file is

_INSTANT = 100_000_000  # nanoseconds: the dates of file systems are finer than that,
_WHOLE_SECONDS = 2_000_000_000  # or they are those of an old one


class Listing:
    """The regular files below a folder, but those whose names say that they are not data, or not yet."""

    def __init__(self, root: str, watch: FolderWatch) -> None:
        self._root = root
        self._watch = watch
        self._may_follow = True
        self._followed: dict[str, Followed] = {}  # by folder
        self._dates: dict[str, int | None] = {"": None}  # by folder; None: it may have more than was seen
        self._fresh: list[str] = []  # folders that were found and not yet listed
        self._round: Iterator[Entry] = iter(())

    @property
    def is_watched(self) -> bool:
        """Whether everything that changes is reported."""
        return self._followed.keys() == self._dates.keys()

    def news(self, seen: Set[str]) -> Iterator[Entry]:
        """The files that are not among those seen, of the folders that have changed since they were listed; and
        those that are said to have changed."""
        self._watch.hear()
        folders = list(self._dates)
        self._fresh = []
        for folder in folders:
            began = time.time_ns()
            try:
                found = os.stat(os.path.join(self._root, folder))
            except OSError:
                self._forget(folder)
                continue
            if self._is_followed(folder, found):
                yield from self._reported(folder)
            elif self._follow(folder, found) or found.st_mtime_ns != self._dates[folder]:
                date = found.st_mtime_ns
                instant = _INSTANT if date % 1_000_000_000 else _WHOLE_SECONDS
                self._dates[folder] = date if began - date > instant else None
                yield from self._files(folder, seen)
            folders += self._fresh
            self._fresh = []

    def _is_followed(self, folder: str, found: os.stat_result) -> bool:
        followed = self._followed.get(folder)
        return followed is not None and followed.is_sure and followed.identity == (found.st_dev, found.st_ino)

    def _follow(self, folder: str, found: os.stat_result) -> bool:
        """Whether the folder is watched from now on; it has to be listed once more."""
        self._unfollow(folder)
        if self._may_follow:
            followed = self._watch.follow(os.path.join(self._root, folder), found)
            if followed is not None:
                self._followed[folder] = followed
                return True
            self._may_follow = False  # this and further folders are looked at by their dates
        return False

    def _unfollow(self, folder: str) -> None:
        if folder in self._followed:
            self._watch.forget(self._followed.pop(folder))

    def _forget(self, folder: str) -> None:
        """It is gone; the root may come back."""
        self._unfollow(folder)
        if folder:
            del self._dates[folder]

    def _reported(self, folder: str) -> Iterator[Entry]:
        for name in self._followed[folder].take():
            path = os.path.join(self._root, folder, name)
            if _is_hidden(name):
                continue
            if os.path.isfile(path):
                yield _below(folder, name), path
            elif os.path.isdir(path) and not os.path.islink(path):
                self._found_folder(_below(folder, name))

    def some(self, most: int) -> Iterator[Entry]:
        """The next files of the round through all folders; the last of a round is followed by nothing."""
        passed = 0
        for entry in islice(self._round, most):
            passed += 1
            yield entry
        if passed < most:
            self._round = (entry for folder in list(self._dates) for entry in self._files(folder))

    def _files(self, folder: str, seen: Set[str] = frozenset()) -> Iterator[Entry]:
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                for entry in entries:
                    name = _below(folder, entry.name)
                    if name in seen or _is_hidden(entry.name):
                        continue
                    if _is_regular(entry):  # opening a pipe or a device could block
                        yield name, entry
                    elif entry.is_dir(follow_symlinks=False):
                        self._found_folder(name)
        except OSError:
            return  # gone since its date was read, or not ours to read

    def _found_folder(self, name: str) -> None:
        if name not in self._dates:
            self._dates[name] = None
            self._fresh.append(name)


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith("._COPYING_")


def _is_regular(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False  # a circle of links
