"""Positions in sources that are folders: the files of each batch.

The files of a batch are logged before it begins, so that a crash repeats it with the same files. Files of it that
could not be read are logged before its tick is committed. So a batch that is in the state has had all its files but
those; for any other batch, what was logged of its files is logged again when it is repeated.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.chained_log import ChainedLog, damaged_line, last_link
from watersmeet.home.counters import Reason
from watersmeet.home.files import whole_lines
from watersmeet.home.manifest import Manifest, committed
from watersmeet.io.offsets import load_offsets
from watersmeet.io.ranges import load_ranges
from watersmeet.io.taken_files import UNKNOWN, Stamp, TakenFiles, unpacked

Files = dict[str, dict[str, Stamp]]  # by stream and name, which is relative to the stream's folder
_LOGS = (layout.positions, layout.offset_log, layout.ranges)
_LONG = 1 << 20  # bytes of a log that is worth rewriting


@dataclass(frozen=True)
class Noted:
    """A file that is known and is not read, and why."""

    name: str
    stamp: Stamp
    reason: Reason


Notes = dict[str, list[Noted]]  # by stream


@dataclass
class Positions:
    """The log of a group's batches: which files each of them has."""

    log: ChainedLog
    batch: int = -1  # the newest
    files: Files = field(default_factory=dict)  # of the newest
    notes: Notes = field(default_factory=dict)  # of the newest
    taken: dict[str, TakenFiles] = field(default_factory=dict)
    _has_rejected: bool = False  # whether the log says of the newest batch that not all of its files were read
    _changed: Files = field(default_factory=dict)  # of the newest, when it is repeated: files that are others by now
    _length: int = 0  # of the log when it was rewritten

    @property
    def path(self) -> Path:
        return self.log.path

    def begin(self, files: Files, notes: Notes) -> None:
        """Write down what the next batch has, before it begins. All batches before it are in the state by now."""
        record: dict[str, Any] = {"batch": self.batch + 1, "files": _listed(files)}
        if notes:
            record["noted"] = {s: [[n.name, *n.stamp, n.reason] for n in some] for s, some in notes.items()}
        if self.path.exists() and self.path.stat().st_size > max(_LONG, 2 * self._length):
            before = {stream: taken.packed() for stream, taken in self.taken.items()}
            self._length = self.log.replace({**record, "before": before})
        else:
            self.log.append(record)
        self._follow(self.batch + 1, files, notes)

    def repeat(self, files: Files) -> None:
        """The newest batch begins again, with all of its files as they are now."""
        self._changed = {
            stream: {name: stamp for name, stamp in stamps.items() if stamp != self.files[stream][name]}
            for stream, stamps in files.items()
        }
        self.files = files
        self._add()

    def reject(self, back: Mapping[str, Iterable[str]], aside: Mapping[str, Iterable[str]]) -> None:
        """Write down, before the tick of the newest batch is committed, which of its files were not read:
        those that are given back, to be taken once more, and those that are set aside."""
        given_back = {stream: sorted(names) for stream, names in back.items() if names}
        set_aside = {stream: sorted(names) for stream, names in aside.items() if names}
        changed = _listed(self._changed)
        if not given_back and not set_aside and not self._has_rejected and not any(changed.values()):
            return
        self.log.append({"batch": self.batch, "back": given_back, "aside": set_aside, "now": changed})
        self._reject(given_back, set_aside)

    def _follow(self, batch: int, files: Files, notes: Notes) -> None:
        self.batch, self.files, self.notes = batch, files, notes
        self._has_rejected, self._changed = False, {}
        self._add()

    def _add(self) -> None:
        for stream, stamps in self.files.items():
            for name, stamp in stamps.items():
                self.of(stream).add(name, stamp)
        for stream, notes in self.notes.items():
            for note in notes:
                if note.reason is Reason.FORGOTTEN_FILE:
                    self.of(stream).set_aside(note.name, note.stamp)
                else:
                    self.of(stream).add(note.name, note.stamp)

    def _reject(self, back: Mapping[str, list[str]], aside: Mapping[str, list[str]]) -> None:
        self._add()  # whatever an earlier try at the batch has met
        for stream, names in back.items():
            for name in names:
                self.of(stream).give_back(name)
        for stream, names in aside.items():
            for name in names:
                self.of(stream).set_aside(name, self.files.get(stream, {}).get(name, UNKNOWN))
        self._has_rejected = True

    def of(self, stream: str) -> TakenFiles:
        return self.taken.setdefault(stream, TakenFiles())

    def _read(self, raw: Mapping[str, Any]) -> None:
        batch = int(raw["batch"])
        if "files" not in raw:
            if batch != self.batch:
                raise ValueError(f"batch {batch} follows batch {self.batch}")
            for stream, listed in raw["now"].items():
                self.files[stream].update(map(_file, listed))
            self._reject(raw["back"], raw["aside"])
            return
        if "before" in raw:  # the beginning of a log that was rewritten
            self.taken = {stream: unpacked(packed) for stream, packed in raw["before"].items()}
        elif batch != self.batch + 1:
            raise ValueError(f"batch {batch} follows batch {self.batch}" if self.batch >= 0 else "lines are missing")
        files = {stream: dict(map(_file, listed)) for stream, listed in raw["files"].items()}
        noted = raw.get("noted", {})
        notes = {
            s: [Noted(n, Stamp(size, date), Reason(why)) for n, size, date, why in some] for s, some in noted.items()
        }
        self._follow(batch, files, notes)


def _listed(files: Files) -> dict[str, list[list[Any]]]:
    return {stream: [[name, *stamp] for name, stamp in stamps.items()] for stream, stamps in files.items()}


def _file(listed: str | list[Any]) -> tuple[str, Stamp]:
    """A file of a batch; earlier versions wrote its name only."""
    if isinstance(listed, str):
        return listed, UNKNOWN
    name, size, date = listed
    return name, Stamp(size, date)


def load_positions(home: Path, group: str, *, to_write: bool = True) -> Positions:
    """The log as the last process left it. A batch of which not all was written down has not begun."""
    found = Positions(ChainedLog(layout.positions(home, group)))
    about = "It lists the files that were read."
    for number, raw in enumerate(found.log.read(about, to_write), 1):
        try:
            found._read(raw)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise damaged_line(found.path, number, problem, about) from None
        if "before" in raw:
            found._length = len(json.dumps(raw))
    return found


def check_positions(home: Path, manifest: Manifest) -> None:
    """Reject positions in the sources that do not fit the state: older, gone, or more than one batch ahead.

    They are written before the tick: by Spark in its checkpoint, or in the log of a group of folders or logs. Without
    them batches would be counted from 0, and the engine would mistake batches of new rows for those that it has."""
    later = max(committed(home), default=0) - manifest.tick  # ticks to go back
    for group, batch in _newest_batches(home, manifest).items():
        mark = manifest.positions.get(group)
        offsets = layout.offsets(home, group, batch)
        if later and layout.commits(home, group, batch + 1).exists():
            raise mixed(offsets.parent, f"Spark does not repeat batch {batch + 1}")
        if offsets.exists():
            if mark is not None and mark != zlib.crc32(offsets.read_bytes()):
                raise mixed(offsets, "its content is not that of the batch which the state contains")
            continue
        log, newest = _newest(home, group)
        if newest < batch:
            raise mixed(place_of(home, group), f"they end before batch {batch}, which the state contains")
        if newest > batch + 1 + later:
            raise mixed(log.path, ahead(newest, batch))
        if mark is not None and mark not in log.links:
            raise mixed(log.path, f"they are not those that the state of batch {batch} was made with")


def with_positions(home: Path, manifest: Manifest, group: str) -> Manifest:
    """The manifest with what it must know of the positions of a group's newest batch: the link of their log, or a
    checksum of Spark's."""
    found = [last_link(log(home, group)) for log in _LOGS]
    offsets = layout.offsets(home, group, manifest.batches.get(group, -1))
    found += [zlib.crc32(offsets.read_bytes())] if offsets.exists() else []
    marks = [mark for mark in found if mark is not None]
    return replace(manifest, positions={**manifest.positions, group: marks[-1]}) if marks else manifest


def begun_after(home: Path, manifest: Manifest) -> dict[Path, list[bytes]]:
    """The lines, at the ends of logs, of batches that were begun after the one that follows the state."""
    found = {}
    for group, batch in _newest_batches(home, manifest).items():
        for log in _LOGS:
            lines = whole_lines(path := log(home, group))
            if later := [each for each in lines if json.loads(each)["batch"] > batch + 1]:
                found[path] = later
    return found


def _newest_batches(home: Path, manifest: Manifest) -> dict[str, int]:
    """By group the newest batch that the state contains; -1 for a group that has only begun its first one."""
    return dict.fromkeys(sorted(layout.groups_with_positions(home)), -1) | manifest.batches


def place_of(home: Path, group: str) -> Path:
    """Where the positions of a group are, or should be."""
    places = (layout.checkpoint(home, group), *(log(home, group) for log in _LOGS))
    return next((place for place in places if place.exists()), layout.positions(home, group))


def _newest(home: Path, group: str) -> tuple[ChainedLog, int]:
    """The log of a group, and the newest batch in it."""
    if layout.offset_log(home, group).exists():
        offsets = load_offsets(home, group, to_write=False)
        return offsets.log, offsets.batch
    if (ranges := load_ranges(home, group, to_write=False)) is not None:
        return ranges.log, ranges.batch
    positions = load_positions(home, group, to_write=False)
    return positions.log, positions.batch


def ahead(batch: int, last: int) -> str:
    return f"they continue with batch {batch}, but the state ends with batch {last}"


def mixed(folder: Path, why: str) -> StateError:
    return StateError(
        f"the positions in the sources, {folder}, do not fit the state: {why}",
        detail="The engine does not guess which rows it has read. Nothing was changed.",
        hint=restore_hint("the home folder as a whole"),
    )
