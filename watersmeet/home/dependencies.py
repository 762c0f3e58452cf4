"""Checks of what a manifest depends on beside the state: no later manifest is lost, the log of changes is there.

A home may be put together from parts of different times, by a backup or a slip of the hand. Each part may be whole by
itself, and a run on it would repeat results, bring back dropped queries or lose added ones without an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.manifest import LogMark, Manifest
from watersmeet.home.sealed import Seal, read_sealed, seal_of, write_sealed
from watersmeet.home.tick_log import recent_ticks

FOLLOWS = "follows"  # in the first line of a log of changes: the mark of the one that it replaces
_HINT = restore_hint("the home folder as a whole")
_ABOUT = {
    layout.GROUPS: "It lists the streams that the positions in the sources belong to.",
    layout.SLICES: "It says which queries the partial aggregates of windows were made for.",
}


class MarkedLog:
    """The mark of a log that grows, or is replaced as a whole. Each call reads what was added since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0  # its number in the file system
        self._mark = LogMark()

    def mark(self) -> LogMark:
        found = os.stat(self._path) if self._path.exists() else None
        if found is not None and found.st_ino != self._file:
            self._file, self._mark = found.st_ino, LogMark()
        size = found.st_size if found is not None else 0
        if size > self._mark.bytes:
            with self._path.open("rb") as file:
                file.seek(self._mark.bytes)
                added = file.read(size - self._mark.bytes)
            added = added[: added.rfind(b"\n") + 1]
            self._mark = LogMark(self._mark.bytes + len(added), zlib.crc32(added, self._mark.checksum))
        return self._mark


def check_dependencies(home: Path, manifest: Manifest, outside: Iterable[Path], is_newest: bool = True) -> None:
    """Reject a home whose newest manifest is not the last that was committed, or whose log of changes or other parts
    are not those of the manifest.

    `outside` are folders of results that are not in the home."""
    _check_changes(home / layout.CHANGES, manifest)
    for name, seal in manifest.parts.items():
        _check_part(home / name, manifest, seal)
    if not is_newest:
        return
    logged = max((times.tick for times in recent_ticks(home)), default=0)
    if logged > manifest.tick:
        raise _lost(home, manifest, f"{home / layout.TICKS} has tick {logged}")
    for file in later_results(home, manifest, outside):
        raise _lost(home, manifest, f"{file} holds results of a later tick")


def _check_changes(log: Path, manifest: Manifest) -> None:
    mark = manifest.changes
    if mark is None or not mark.bytes:
        return
    content = log.read_bytes() if log.exists() else b""
    if fits(content, mark) or _fits_before(content, log, mark):
        return
    why = "it is missing" if not log.exists() else "its content is another"
    if content and len(content) < mark.bytes:
        why = f"it has {len(content):,} of {mark.bytes:,} bytes"
    raise StateError(
        f"{log} does not fit the state of tick {manifest.tick}: {why}",
        detail="It says which queries were added and dropped while the engine ran. Nothing was changed.",
        hint=f"restore it; or {_HINT}",
    )


def fits(content: bytes, mark: LogMark) -> bool:
    """Whether a log was like this at the time of a mark, or has grown since."""
    return len(content) >= mark.bytes and zlib.crc32(content[: mark.bytes]) == mark.checksum


def _fits_before(content: bytes, log: Path, mark: LogMark) -> bool:
    """Whether a mark is that of the log which this one has replaced since."""
    try:
        whole = LogMark(**json.loads(content.partition(b"\n")[0])[FOLLOWS])
        before = layout.rotated(log).read_bytes()
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return len(before) == whole.bytes and fits(before, whole) and fits(before, mark)


def _check_part(path: Path, manifest: Manifest, seal: Seal) -> None:
    try:
        read_sealed(path)
        found = seal_of(path)
        if found is None or found.generation < seal.generation:
            why = "it is older"
        elif found.generation == seal.generation and found != seal:
            why = "its content is another"
        else:
            return
    except FileNotFoundError:
        why = "it is missing"
    except ValueError as problem:
        why = f"it is damaged: {problem}"
    raise StateError(
        f"{path} does not fit the state of tick {manifest.tick}: {why}",
        detail=f"{_ABOUT[path.name]} Nothing was changed.",
        hint=f"restore it from a backup; or {_HINT}",
    )


def seal_parts(home: Path) -> None:
    """Seal the files that an earlier version has written, so that the next manifest has their checksums. They may not
    be written again for long, and without a seal nobody would miss them. One that is damaged is its reader's matter."""
    for name in _ABOUT:
        if seal_of(home / name) is None:
            with contextlib.suppress(FileNotFoundError, ValueError):
                write_sealed(home / name, read_sealed(home / name))


def seals(home: Path) -> dict[str, Seal]:
    """The sealed files of a home, as they are now."""
    found = {name: seal_of(home / name) for name in _ABOUT}
    return {name: seal for name, seal in found.items() if seal is not None}


def later_results(home: Path, manifest: Manifest, outside: Iterable[Path]) -> Iterator[Path]:
    """Published files of ticks after the manifest's: a tick publishes them once its own manifest exists."""
    folders = (layout.RESULTS, layout.OUTBOX, layout.REJECTED)
    own = [*(found for name in folders for found in (home / name).glob("*")), home / layout.COUNTS]
    for folder in own:
        yield from _beyond(folder, manifest.tick, "")
    for folder in outside if manifest.tag else ():
        yield from _beyond(folder, manifest.tick, manifest.tag)


def _beyond(folder: Path, tick: int, tag: str) -> Iterator[Path]:
    committed = f"{tick:012d}"
    try:
        later = sorted(name for name in os.listdir(folder) if name[:12] > committed)
    except OSError:
        return
    yield from (folder / name for name in later if layout.tick_of(name, tag) is not None)


def _lost(home: Path, manifest: Manifest, why: str) -> StateError:
    return StateError(
        f"the newest manifest of {home} is that of tick {manifest.tick}, and a later tick was committed: {why}",
        detail="A run from here would write its results a second time. Nothing was changed.",
        hint=f"{_HINT}; where an older state is wanted, move away the result files of later ticks and {layout.TICKS}",
    )
