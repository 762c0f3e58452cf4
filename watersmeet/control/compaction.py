"""The log of changes stays short: what later changes have made irrelevant is left out now and then.

The log is replaced as a whole, and the one before is kept beside it. The first line of the new one has the mark of the
one before: a manifest that was committed before the replacement names that one (`home/dependencies.py`). So the log is
replaced again only after a tick was committed with the new one.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from watersmeet.control.change_log import Entry, entries_in
from watersmeet.home import layout
from watersmeet.home.dependencies import FOLLOWS, fits
from watersmeet.home.files import line, replace_durably
from watersmeet.home.manifest import LogMark

LONGEST_LOG = 256 << 10  # bytes


class Compaction:
    def __init__(self, home: Path, declared: Collection[str]) -> None:
        """`declared` are the queries that the pipeline had before the log was read."""
        self._log = home / layout.CHANGES
        self._declared = frozenset(declared)
        self._due = LONGEST_LOG

    def run(self, committed: LogMark | None) -> None:
        """Shorten the log if it is long. No line is being written meanwhile; `committed` is the newest manifest's."""
        with contextlib.suppress(OSError):  # it is tried again after the next change
            if self._log.stat().st_size <= self._due:
                return
            content = self._log.read_bytes()
            if committed is None or not committed.bytes or not fits(content, committed):
                return
            short = _content(shortened(entries_in(content.splitlines()), self._declared), content)
            if 2 * len(short) <= len(content):
                _keep(self._log)
                replace_durably(self._log, short)
            self._due = max(LONGEST_LOG, 2 * len(short))


def shortened(entries: Sequence[Entry], declared: Collection[str]) -> list[Entry]:
    """The entries without which `recall` would bring back other queries, in their order.

    That is the last addition of each query that is active, and its last resumption. A drop stays if the query was
    there before the log, or it would be back after the next start."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    resumed: dict[str, int] = {}
    for at, entry in enumerate(entries):
        if entry.kind == "resume":
            resumed[entry.name] = at
            continue
        first.setdefault(entry.name, at)
        last[entry.name] = at
        resumed.pop(entry.name, None)
    kept = set(resumed.values())
    for name, at in last.items():
        was_there = name in declared or entries[first[name]].kind == "drop"
        if entries[at].kind == "add" or was_there:
            kept.add(at)
        if was_there:  # so that this is still known once the log is shortened again
            kept.update(drop for drop in (first[name],) if entries[drop].kind == "drop")
    return [entries[at] for at in sorted(kept)]


def _content(entries: Iterable[Entry], before: bytes) -> bytes:
    head = {FOLLOWS: asdict(LogMark(len(before), zlib.crc32(before)))}
    return line(head) + b"".join(line(asdict(entry)) for entry in entries)


def _keep(log: Path) -> None:
    """Give the log a second name, which the one before has had so far."""
    draft = layout.draft(layout.rotated(log))
    draft.unlink(missing_ok=True)
    os.link(log, draft)
    draft.replace(layout.rotated(log))
