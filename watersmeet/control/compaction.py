"""Compaction of the log of changes: entries that later ones have made irrelevant are removed now and then.

The log is replaced as a whole, and the one before is kept beside it. The first line of the new one has the mark of the
one before: a manifest that was committed before the replacement names that one (`home/dependencies.py`). So the log is
replaced again only after a tick was committed with the new one.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from watersmeet.control.change_log import RESUME, STREAM, LoggedChange, entries_in, folded
from watersmeet.home import layout
from watersmeet.home.dependencies import FOLLOWS, fits
from watersmeet.home.files import line, replace_durably
from watersmeet.home.manifest import LogMark

LONGEST_LOG = 256 << 10  # bytes


class Compaction:
    def __init__(self, home: Path) -> None:
        self._log = home / layout.CHANGES
        self._due = LONGEST_LOG

    def run(self, committed: LogMark | None) -> None:
        """Shorten the log if it is long. No line is being written meanwhile; `committed` is the newest manifest's."""
        with contextlib.suppress(OSError):  # it is tried again after the next change
            if self._log.stat().st_size <= self._due:
                return
            content = self._log.read_bytes()
            if committed is None or not committed.bytes or not fits(content, committed):
                return
            short = _content(shortened(entries_in(content.splitlines())), content)
            if 2 * len(short) <= len(content):
                _keep(self._log)
                replace_durably(self._log, short)
            self._due = max(LONGEST_LOG, 2 * len(short))


def shortened(entries: Sequence[LoggedChange]) -> list[LoggedChange]:
    """The entries without which the log would describe another state, in their order.

    That is the last addition of each query that is active and its last resumption, what the pipeline has declared, and
    the drop of a query that it declares: or it would be back after the next start."""
    found = folded(entries)
    last = {(entry.name, entry.kind == RESUME): at for at, entry in enumerate(entries) if entry.kind != STREAM}
    kept = {last[name, True] for name in found.resumed}
    kept |= {last[name, False] for name in {**found.active, **found.declared}}
    named = {id(entry) for entry in (*found.declared.values(), *found.streams.values())}
    return [entry for at, entry in enumerate(entries) if at in kept or id(entry) in named]


def _content(entries: Iterable[LoggedChange], before: bytes) -> bytes:
    head = {FOLLOWS: asdict(LogMark(len(before), zlib.crc32(before)))}
    return line(head) + b"".join(line(asdict(entry)) for entry in entries)


def _keep(log: Path) -> None:
    """Give the log a second name, which the one before has had so far."""
    draft = layout.draft(layout.rotated(log))
    draft.unlink(missing_ok=True)
    os.link(log, draft)
    draft.replace(layout.rotated(log))
