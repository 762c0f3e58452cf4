"""The log of positions in sources: what each batch of a group has of each stream.

The extents of a batch (`io/source.py`) are logged before it begins, so that a crash repeats it with the same rows. What
was found out while it was read, its outcome, is logged before its tick is committed. A batch that is begun again after
a crash is logged again if it has other extents by then, or had an outcome. A log that has grown long is rewritten with
the positions of all sources.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.chained_log import ChainedLog, damaged_line, last_link
from watersmeet.home.files import whole_lines
from watersmeet.home.manifest import Manifest, committed
from watersmeet.io.source import Extent, History, Position

Extents = dict[str, Extent]  # by stream
_LONG = 1 << 20  # bytes of a log that is worth rewriting
_ABOUT = "It says what was read of the sources."


@dataclass
class PositionLog:
    """The log of a group: the extents of its batches."""

    log: ChainedLog
    batch: int = -1  # the newest
    extents: Extents = field(default_factory=dict)  # of the newest
    histories: dict[str, History] = field(default_factory=dict)  # by stream, as the log was when it was read
    _has_outcome: bool = False  # of the newest batch
    _length: int = 0  # of the log when it was rewritten

    @property
    def path(self) -> Path:
        return self.log.path

    @property
    def is_new(self) -> bool:
        return not self.log.links

    def start(self, positions: Mapping[str, Position]) -> None:
        """Write down where the first batch will begin."""
        self.log.append({"batch": self.batch, "streams": {}, "before": positions})

    def begin(self, extents: Extents, positions: Callable[[], Mapping[str, Position]]) -> None:
        """Write down what the next batch has, before it begins. All batches before it are in the state by now."""
        record = {"batch": self.batch + 1, "streams": extents}
        if self.path.exists() and self.path.stat().st_size > max(_LONG, 2 * self._length):
            self._length = self.log.replace({**record, "before": positions()})
        else:
            self.log.append(record)
        self.batch, self.extents, self._has_outcome = self.batch + 1, extents, False

    def repeat(self, extents: Extents) -> None:
        """The newest batch begins again, with what it has now."""
        if extents != self.extents or self._has_outcome:
            self.log.append({"batch": self.batch, "streams": extents})
        self.extents, self._has_outcome = extents, False

    def finish(self, outcomes: Mapping[str, Any]) -> None:
        """Write down what is known of the newest batch before its tick is committed, if there is something. A tick may
        be tried again: the last outcome counts, also where it is nothing."""
        if outcomes or self._has_outcome:
            self.log.append({"batch": self.batch, "outcome": outcomes})
            self._has_outcome = True

    def _follow(self, raw: Mapping[str, Any]) -> None:
        batch = int(raw["batch"])
        if "outcome" in raw:
            if batch != self.batch:
                raise ValueError(f"batch {batch} follows batch {self.batch}")
            if strange := raw["outcome"].keys() - self.extents.keys():
                raise ValueError(f"batch {batch} has nothing of stream {min(strange)}")
            for stream, extent in self.extents.items():
                self.histories[stream].batches[-1] = extent, raw["outcome"].get(stream)
            self._has_outcome = True
            return
        if "before" in raw or "follows" in raw:  # the beginning of a log that was rewritten
            self.histories = {stream: History(position) for stream, position in raw.get("before", {}).items()}
        elif batch == self.batch:
            for stream in self.extents:
                self.histories[stream].batches.pop()
        elif batch != self.batch + 1:
            raise ValueError(f"batch {batch} follows batch {self.batch}" if self.batch >= 0 else "lines are missing")
        for stream, extent in raw["streams"].items():
            self.histories.setdefault(stream, History()).batches.append((extent, None))
        self.batch, self.extents, self._has_outcome = batch, raw["streams"], False


def _modern(raw: dict[str, Any]) -> dict[str, Any]:
    """A line as it is written today. Earlier versions had one kind of log for folders and another for Delta tables; the
    one for topics had today's form."""
    if "ranges" in raw:
        return {**raw, "streams": raw["ranges"]}
    if "files" in raw:
        files, noted = raw["files"], raw.get("noted", {})
        streams = {s: {"files": files.get(s, []), "noted": noted.get(s, [])} for s in {**files, **noted}}
        return {**raw, "streams": streams}
    if "back" in raw:
        keys = ("back", "aside", "now")
        named = {stream for key in keys for stream in raw[key]}
        return {"batch": raw["batch"], "outcome": {s: {key: raw[key].get(s, []) for key in keys} for s in named}}
    return raw


def load_positions(home: Path, group: str, *, to_write: bool = True) -> PositionLog:
    """The log as the last process left it. A batch of which not all was written down has not begun."""
    found = PositionLog(ChainedLog(layout.positions(home, group)))
    for number, raw in enumerate(found.log.read(_ABOUT, to_write), 1):
        try:
            found._follow(_modern(raw))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
            raise damaged_line(found.path, number, problem, _ABOUT) from None
        if "before" in raw:
            found._length = len(json.dumps(raw))
    return found


def check_positions(home: Path, manifest: Manifest) -> None:
    """Reject positions in the sources that do not fit the state: older, gone, or more than one batch ahead.

    They are written before the tick: by Spark in its checkpoint, or in the log of a group. Without
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
        log = load_positions(home, group, to_write=False)
        if log.batch < batch:
            raise mixed(place_of(home, group), f"they end before batch {batch}, which the state contains")
        if log.batch > batch + 1 + later:
            raise mixed(log.path, ahead(log.batch, batch))
        if mark is not None and mark not in log.log.links:
            raise mixed(log.path, f"they are not those that the state of batch {batch} was made with")


def with_positions(home: Path, manifest: Manifest, group: str) -> Manifest:
    """The manifest with what it must know of the positions of a group's newest batch: the link of their log, or a
    checksum of Spark's."""
    offsets = layout.offsets(home, group, manifest.batches.get(group, -1))
    mark = zlib.crc32(offsets.read_bytes()) if offsets.exists() else last_link(layout.positions(home, group))
    return replace(manifest, positions={**manifest.positions, group: mark}) if mark is not None else manifest


def begun_after(home: Path, manifest: Manifest) -> dict[Path, list[bytes]]:
    """The lines, at the ends of logs, of batches that were begun after the one that follows the state."""
    found = {}
    for group, batch in _newest_batches(home, manifest).items():
        lines = whole_lines(path := layout.positions(home, group))
        if later := [each for each in lines if json.loads(each)["batch"] > batch + 1]:
            found[path] = later
    return found


def _newest_batches(home: Path, manifest: Manifest) -> dict[str, int]:
    """By group the newest batch that the state contains; -1 for a group that has only begun its first one."""
    return dict.fromkeys(sorted(layout.groups_with_positions(home)), -1) | manifest.batches


def place_of(home: Path, group: str) -> Path:
    """Where the positions of a group are, or should be."""
    checkpoint = layout.checkpoint(home, group)
    return checkpoint if checkpoint.exists() else layout.positions(home, group)


def ahead(batch: int, last: int) -> str:
    return f"they continue with batch {batch}, but the state ends with batch {last}"


def mixed(folder: Path, why: str) -> StateError:
    return StateError(
        f"the positions in the sources, {folder}, do not fit the state: {why}",
        detail="The engine does not guess which rows it has read. Nothing was changed.",
        hint=restore_hint("the home folder as a whole"),
    )
