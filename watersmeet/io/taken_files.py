"""What is remembered of the files of a stream that were taken: a number for the name, the size and the date.

That is 24 bytes for each file, however long its name is. Files that are still in the folder are always remembered; of
those that are gone, so many that all are not more than `REMEMBERED`. Of the forgotten ones the newest date remains: a
file of an unknown name that is not newer may be one of them, so it is set aside instead of being read a second time.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

REMEMBERED = 1_000_000


class Stamp(NamedTuple):
    """What tells one content of a file from another."""

    size: int
    date: int  # nanoseconds


UNKNOWN = Stamp(-1, -1)  # of files that an earlier version took


class TakenFiles:
    """The files of one stream that were taken."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.uint64)  # ascending
        self._stamps = np.empty((0, 2), np.int64)
        self._recent: dict[int, Stamp] = {}
        self.aside: dict[str, Stamp] = {}  # of these, those that were not read, because they could not be
        self.forgotten = -1  # the newest date of a file that is not remembered any more

    def __len__(self) -> int:
        return len(self._keys) + len(self._recent)  # one that is in both counts twice until it is packed

    @property
    def are_too_many(self) -> bool:
        return len(self) > REMEMBERED

    def stamp_of(self, name: str) -> Stamp | None:
        """The stamp with which a file was taken; None if it was not."""
        key = key_of(name)
        if key in self._recent:
            found = self._recent[key]
            return found if found is not _NOT_TAKEN else None
        at = int(self._keys.searchsorted(np.uint64(key))) if len(self._keys) else 0
        if at < len(self._keys) and int(self._keys[at]) == key:
            return Stamp(*map(int, self._stamps[at]))
        return None

    def add(self, name: str, stamp: Stamp) -> None:
        self._recent[key_of(name)] = stamp
        self.aside.pop(name, None)

    def set_aside(self, name: str, stamp: Stamp) -> None:
        self.add(name, stamp)
        self.aside[name] = stamp

    def give_back(self, name: str) -> None:
        self._recent[key_of(name)] = _NOT_TAKEN
        self.aside.pop(name, None)

    def forget_gone(self, present: Iterable[int]) -> None:
        """Forget the oldest of the files that are not present (by `key_of`), if there are too many."""
        self._merge()
        spare = len(self._keys) - REMEMBERED
        if spare <= 0:
            return
        gone = np.flatnonzero(~np.isin(self._keys, np.fromiter(present, np.uint64)))
        oldest = gone[np.argsort(self._stamps[gone, 1], kind="stable")[:spare]]
        if len(oldest):
            self.forgotten = max(self.forgotten, int(self._stamps[oldest, 1].max()))
            self._keys, self._stamps = np.delete(self._keys, oldest), np.delete(self._stamps, oldest, axis=0)

    def _merge(self) -> None:
        if not self._recent:
            return
        keys = np.fromiter(self._recent, np.uint64)
        stamps = np.array(list(self._recent.values()), np.int64)
        stays = ~np.isin(self._keys, keys)
        taken = stamps[:, 0] != _NOT_TAKEN.size
        keys = np.concatenate([self._keys[stays], keys[taken]])
        stamps = np.concatenate([self._stamps[stays], stamps[taken]])
        order = np.argsort(keys)
        self._keys, self._stamps, self._recent = keys[order], stamps[order], {}

    def packed(self) -> dict[str, Any]:
        """As it stands in a log."""
        self._merge()
        content = self._keys.astype("<u8").tobytes() + self._stamps.astype("<i8").tobytes()
        return {"files": base64.b64encode(content).decode(), "aside": self.aside, "forgotten": self.forgotten}


_NOT_TAKEN = Stamp(-2, -2)


def unpacked(raw: Mapping[str, Any] | list[str]) -> TakenFiles:
    """From a log; earlier versions wrote a list of names."""
    found = TakenFiles()
    if isinstance(raw, list):
        for name in raw:
            found.add(name, UNKNOWN)
        return found
    content = base64.b64decode(raw["files"], validate=True)
    count = len(content) // 24
    found._keys = np.frombuffer(content, "<u8", count).astype(np.uint64)
    found._stamps = np.frombuffer(content, "<i8", 2 * count, 8 * count).astype(np.int64).reshape(count, 2)
    found.aside = {name: Stamp(*stamp) for name, stamp in raw["aside"].items()}
    found.forgotten = int(raw["forgotten"])
    return found


def key_of(name: str) -> int:
    """Two of a million names have the same number with a probability of 3e-8; then the second counts as rewritten."""
    return int.from_bytes(hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest(), "little")
