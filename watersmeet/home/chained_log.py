"""A log whose lines are chained: each has a checksum of itself and of all lines before it, its *link*.

A manifest names the link of the last line at its commit. So no line can be lost, changed or exchanged for one of
another time without being noticed, and lines that were added later are no damage. A log that is rewritten begins with
the link of the one that it replaces. Lines of earlier versions have no link; the first one that has covers them.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError, restore_hint
from watersmeet.home.files import append_line, cut_torn_line, replace_durably, whole_lines

_LINK = re.compile(rb'(.*), "link": (\d+)\}', re.DOTALL)
_FOLLOWS = "follows"
_LONGEST_LINK = 64  # bytes at the end of a line that have it


class ChainedLog:
    """An append-only file of JSON records, each with its link."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.links: list[int] = []  # of all lines, and first the one that the log follows

    @property
    def link(self) -> int:
        return self.links[-1] if self.links else 0

    def append(self, record: dict[str, Any]) -> None:
        """The line is on the disk afterwards, or it is not there."""
        text, link = _chained(record, self.link)
        append_line(self.path, text)
        self.links.append(link)

    def replace(self, record: dict[str, Any]) -> int:
        """Begin anew with a record that has all that is needed of those before. Returns its length."""
        text, link = _chained({**record, _FOLLOWS: self.link}, self.link)
        length = replace_durably(self.path, text)
        self.links = [self.link, link]
        return length

    def read(self, about: str, to_write: bool = True) -> list[dict[str, Any]]:
        """All records but a last one that is torn: what it was written for has not begun."""
        if to_write:
            cut_torn_line(self.path)
        records, self.links = [], []
        for number, line in enumerate(whole_lines(self.path), 1):
            try:
                records.append(self._follow(line, number == 1))
            except (ValueError, TypeError, AttributeError) as problem:
                raise damaged_line(self.path, number, problem, about) from None
        return records

    def _follow(self, line: bytes, is_first: bool) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(line)
        if is_first:
            self.links = [int(record.get(_FOLLOWS, 0))]
        chained = _LINK.fullmatch(line)
        found = zlib.crc32(chained[1] + b"}" if chained else line, self.link)
        if chained and int(chained[2]) != found:
            raise ValueError("its checksum is wrong, or lines before it are missing")
        self.links.append(found)
        return record


def damaged_line(path: Path, number: int, problem: Exception, about: str) -> StateError:
    return StateError(
        f"{path} is damaged in line {number}: {problem}",
        detail=f"{about} Nothing was changed.",
        hint=restore_hint("the home folder as a whole"),
    )


def last_link(path: Path) -> int | None:
    """The link of the last line; None where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(-min(_LONGEST_LINK, file.seek(0, os.SEEK_END)), os.SEEK_END)
            end = _LINK.fullmatch(file.read().rstrip(b"\n"))
    except FileNotFoundError:
        return None
    return int(end[2]) if end else None


def _chained(record: dict[str, Any], before: int) -> tuple[bytes, int]:
    body = json.dumps(record).encode()
    link = zlib.crc32(body, before)
    return body[:-1] + b', "link": %d}\n' % link, link
