"""Folders of Parquet files as sources that Watersmeet reads itself: which files are new, and how they are read.

Spark's own file source costs a quarter of a second for each batch, and its rows go through Java to Python; see
decision 10. Its guarantees hold here too: files are read in the order of their dates, each once (folder_source.py).
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from watersmeet.errors import InputError
from watersmeet.home.counters import Reason
from watersmeet.io.listing import Listing
from watersmeet.io.parquet_files import StreamFile
from watersmeet.io.sources import DEFAULT_FILES, MAX_BYTES, MAX_FILES
from watersmeet.io.taken_files import UNKNOWN, Stamp, TakenFiles, key_of
from watersmeet.io.watch import FolderWatch
from watersmeet.model import Stream

_DEFAULT_BYTES = 256 << 20
_DEFAULT_ROWS = 10_000_000
_ROUND = 5  # files that a look passes in the round through all of them,
_ROUND_SECONDS = 0.02  # for each time that has passed like this one,
_LONGEST_ROUND = 250  # but not more
_SPARE = 1000  # names of files that are gone


def is_folder(stream: Stream) -> bool:
    """Whether a stream is a plain folder of this machine, read with options that are understood here."""
    source = stream.source
    if source is None or source.format != "parquet" or not os.path.isdir(source.path):
        return False
    known = (MAX_FILES, MAX_BYTES)
    return all(name.lower() in known and value.isdigit() and int(value) > 0 for name, value in source.options)


@dataclass(frozen=True)
class Noted:
    """A file that is known and is not read, and why."""

    name: str
    stamp: Stamp
    reason: Reason


class _Change(NamedTuple):
    """A file that may still be written to: what it was like, and since when (on the monotonic clock)."""

    stamp: Stamp
    since: float


class Folder:
    """The files of one stream that wait to be taken, the oldest first.

    A file that could not be read is given back. It is tried once more when its size and date have been the same for
    `settle` seconds, and set aside if it cannot be read then. One that was set aside and changes is tried again; one
    that was read and changes is only noted."""

    def __init__(self, stream: Stream, taken: TakenFiles, settle: float, watch: FolderWatch) -> None:
        assert stream.source is not None
        self.root = os.path.abspath(stream.source.path)
        options = {name.lower(): int(value) for name, value in stream.source.options}
        self._most_files = options.get(MAX_FILES, DEFAULT_FILES if MAX_BYTES not in options else 1 << 62)
        self._most_bytes = options.get(MAX_BYTES, _DEFAULT_BYTES if MAX_FILES not in options else 1 << 62)
        self._most_rows = _DEFAULT_ROWS if not options else 1 << 62
        self._row_bytes = 0.0  # of the rows that were read last; only tasks open files
        self._settle = settle
        self._taken = taken
        self._listing = Listing(self.root, watch)
        self._looked = time.monotonic()
        self._waiting: deque[str] = deque()
        self._seen: set[str] = set()  # names that need no other look when their folder changes
        self._changing: dict[str, _Change] = {}
        self._tried: dict[str, _Change] = {}  # files that were given back, and wait to be tried or are being tried
        self._noted: dict[str, Noted] = {}
        self._passed: set[int] = set()  # in this round, by `key_of`

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def is_changing(self) -> bool:
        """Whether there are files that are looked at again before anything is said of them."""
        return bool(self._changing)

    @property
    def is_watched(self) -> bool:
        """Whether a new file is reported, so that nobody has to look for it."""
        return self._listing.is_watched

    def look(self) -> None:
        """See which files there are, if none is known to wait."""
        if self._waiting:
            return
        found: dict[str, int] = {}  # the round may pass a file that has just been listed: each waits once
        for name, entry in self._listing.news(self._seen):
            found.update(self._look_at(name, entry))
        found.update(self._pass_some())
        found.update(self._settled())
        self._waiting.extend(sorted(found, key=lambda name: (found[name], name)))

    def _look_at(self, name: str, entry: str | os.DirEntry[str]) -> Iterator[tuple[str, int]]:
        if name not in self._changing and name not in self._tried:
            self._seen.add(name)
            yield from self._compare(name, entry)

    def _pass_some(self) -> Iterator[tuple[str, int]]:
        """Looks are seldom where changes are reported, and the round takes no longer then."""
        now = time.monotonic()
        most = min(_LONGEST_ROUND, _ROUND * max(1, int((now - self._looked) / _ROUND_SECONDS)))
        self._looked = now
        passed = 0
        for name, entry in self._listing.some(most):
            passed += 1
            self._passed.add(key_of(name))
            yield from self._look_at(name, entry)
        if passed < most:
            self._forget_gone()
            self._passed = set()

    def _forget_gone(self) -> None:
        """At the end of a round: of files that were deleted, names that are looked for no longer cost memory."""
        if self._taken.are_too_many:
            self._taken.forget_gone(self._passed)
        if len(self._seen) > 2 * len(self._passed) + _SPARE:
            pending = self._changing.keys() | self._tried.keys()
            self._seen = {name for name in self._seen if name in pending or key_of(name) in self._passed}

    def _compare(self, name: str, entry: str | os.DirEntry[str]) -> Iterator[tuple[str, int]]:
        """The file if it is to be taken now; where it is not what was taken, it is noted when it has settled."""
        stamp = _stamp(entry)
        known = self._taken.stamp_of(name)
        if stamp is None:
            return
        if known is None:
            if stamp.date > self._taken.forgotten:
                yield name, stamp.date
            else:
                self._noted[name] = Noted(name, stamp, Reason.FORGOTTEN_FILE)
        elif known == UNKNOWN:
            self._taken.add(name, stamp)
        elif known != stamp:
            self._changing[name] = _Change(stamp, time.monotonic())

    def _settled(self) -> Iterator[tuple[str, int]]:
        """Of the files that may still be written to, those that have not been for a while."""
        for name, change in list(self._changing.items()):
            stamp = _stamp(self.path(name))
            if stamp is None:
                del self._changing[name]
                self._seen.discard(name)
            elif stamp != change.stamp:
                self._changing[name] = _Change(stamp, time.monotonic())
            elif self._has_settled(change):
                del self._changing[name]
                if self._taken.stamp_of(name) is None or name in self._taken.aside:
                    self._tried[name] = change
                    yield name, stamp.date
                elif self._taken.stamp_of(name) != stamp:
                    self._noted[name] = Noted(name, stamp, Reason.REWRITTEN_FILE)

    def _has_settled(self, change: _Change) -> bool:
        return max(time.time() - change.stamp.date / 1e9, time.monotonic() - change.since) >= self._settle

    def take(self) -> dict[str, Stamp]:
        """The next files, as many as one batch may have."""
        taken: dict[str, Stamp] = {}
        size = 0
        most_bytes = min(self._most_bytes, self._most_rows * self._row_bytes or self._most_bytes)
        while self._waiting and len(taken) < self._most_files:
            stamp = _stamp(self.path(self._waiting[0]))
            if stamp is None:  # gone since it was listed
                self._seen.discard(self._waiting.popleft())
                continue
            size += stamp.size
            if taken and size > most_bytes:
                break
            name = self._waiting.popleft()
            self._taken.add(name, stamp)
            taken[name] = stamp
        return taken

    def counted(self, rows: int, size: int) -> None:
        """So many rows were in files of this size, which says how many are in the next ones."""
        if rows:
            self._row_bytes = size / rows

    def take_notes(self) -> list[Noted]:
        noted, self._noted = list(self._noted.values()), {}
        for note in noted:
            self._taken.add(note.name, note.stamp)
        return noted

    def rejected(self, files: Mapping[str, Stamp], names: Iterable[str]) -> tuple[set[str], set[str]]:
        """Of the files of a batch those that could not be read: the ones to try again, and the ones to set aside."""
        back, aside = set(), set()
        for name in names:
            now = _stamp(self.path(name))
            change = self._tried.get(name)
            if change is None or change.stamp != now:
                change = _Change(now or files[name], time.monotonic())
            if now is not None and (now != files[name] or not self._has_settled(change)):
                back.add(name)
                self._changing[name] = change
            else:
                aside.add(name)
        for name in files:
            self._tried.pop(name, None)
        return back, aside

    def retry(self) -> None:
        """Take after all what was set aside and is still there."""
        self._waiting.extend(name for name in self._taken.aside if _stamp(self.path(name)) is not None)

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def stamp_of(self, name: str) -> Stamp | None:
        """What a file is like now."""
        return _stamp(self.path(name))


def _stamp(file: str | os.DirEntry[str]) -> Stamp | None:
    """None if it is gone, or no regular file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return Stamp(found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


class InputFile(NamedTuple):
    """A file of a batch, as it was when it was taken."""

    path: str
    stamp: Stamp


def as_found(path: str) -> InputFile:
    """A file that was found by its path; the task that reads it reports it if it is gone, or no regular file."""
    return InputFile(path, _stamp(path) or Stamp(0, 0))


@dataclass(frozen=True)
class FilePiece:
    """A file, or a share of the row groups of a large one, for one task to read."""

    stream: str
    file: str
    bytes: int
    share: int = 0
    shares: int = 1
    stamp: Stamp | None = None  # what the file has to be like, for all of its shares to be of the same content

    def read(self, stream: Stream, kept: dict[Stream, Any]) -> Iterator[pa.RecordBatch]:
        """The rows as the stream declares them. InputError where the file is not one of this stream, or is damaged."""
        opened = StreamFile(stream, self.file)
        if self.stamp not in (None, _stamp(self.file)):
            opened.close()
            raise InputError(f"stream {stream.name}: {self.file} has changed since it was found")
        return self._row_groups(opened)

    def _row_groups(self, opened: StreamFile) -> Iterator[pa.RecordBatch]:
        with contextlib.closing(opened):
            for at in range(self.share, opened.row_groups, self.shares):
                yield from opened.rows(at)


_SPLIT = 64 << 20  # larger files are read by several tasks


def file_pieces(stream: str, files: Iterable[InputFile]) -> list[FilePiece]:
    """Only tasks open files, so how many row groups a large one has is for them to see."""
    found = []
    for file in files:
        stamp = file.stamp
        shares = max(1, -(-stamp.size // _SPLIT))
        found += [FilePiece(stream, file.path, stamp.size // shares, at, shares, stamp=stamp) for at in range(shares)]
    return found
