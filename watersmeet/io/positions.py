"""Positions in sources that are folders: the files of each batch.

The files of a batch are logged before it begins, so that a crash repeats it with the same files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.files import append_durably, cut_torn_line, line, whole_lines, write_whole
from watersmeet.home.manifest import Manifest

Files = dict[str, list[str]]  # by stream, relative to its folder
_LONG = 1 << 20  # bytes of a log that is worth rewriting


@dataclass
class Positions:
    """The log of a group's batches: which files each of them has."""

    path: Path
    batch: int = -1  # the newest
    files: Files = field(default_factory=dict)  # of the newest
    taken: dict[str, set[str]] = field(default_factory=dict)

    def begin(self, files: Files) -> None:
        """Write down what the next batch has, before it begins."""
        self.batch, self.files = self.batch + 1, files
        self._add(files)
        append_durably(self.path, [{"batch": self.batch, "files": files}])

    def _add(self, files: Mapping[str, list[str]]) -> None:
        for stream, names in files.items():
            self.taken.setdefault(stream, set()).update(names)


def load_positions(home: Path, group: str) -> Positions:
    """The log as the last process left it. A batch of which not all was written down has not begun."""
    path = layout.positions(home, group)
    cut_torn_line(path)
    found = Positions(path)
    lines = whole_lines(path)
    for number, text in enumerate(lines, 1):
        try:
            raw = json.loads(text)
            found._add(raw.get("before", {}))
            found._add(raw["files"])
            found.batch, found.files = int(raw["batch"]), raw["files"]
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise StateError(
                f"{path} is damaged in line {number}: {problem!r}",
                detail="It lists the files that were read. Nothing was changed.",
                hint=restore_hint("the home folder as a whole"),
            ) from None
    if len(lines) > 1 and path.stat().st_size > _LONG:
        before = {stream: sorted(names - set(found.files.get(stream, ()))) for stream, names in found.taken.items()}
        write_whole(path, line({"batch": found.batch, "files": found.files, "before": before}))
    return found


def check_positions(home: Path, manifest: Manifest) -> None:
    """Reject positions in the sources that do not fit the state: older, gone, or more than one batch ahead.

    They are written before the tick: by Spark in its checkpoint, or in the log of a group of folders. Without them
    batches would be counted from 0, and the engine would mistake batches of new rows for those that it has."""
    for group, batch in manifest.batches.items():
        if layout.offsets(home, group, batch).exists():
            continue
        folder, positions = layout.checkpoint(home, group), load_positions(home, group)
        if positions.batch < batch:
            where = folder if folder.exists() else positions.path
            raise mixed(where, f"they end before batch {batch}, which the state contains")
        if positions.batch > batch + 1:
            raise mixed(positions.path, ahead(positions.batch, batch))


def ahead(batch: int, last: int) -> str:
    return f"they continue with batch {batch}, but the state ends with batch {last}"


def mixed(folder: Path, why: str) -> StateError:
    return StateError(
        f"the positions in the sources, {folder}, do not fit the state: {why}",
        detail="The engine does not guess which rows it has read. Nothing was changed.",
        hint=restore_hint("the home folder as a whole"),
    )
