"""Folders of Parquet files as sources: the extent of a batch is its files, and those that are known and not read.

Names are relative to the folder of the stream, so it may be moved. Files that could not be read are the outcome of a
batch: those that are given back, to be taken once more, and those that are set aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from watersmeet.errors import InputError
from watersmeet.home.counters import Reason
from watersmeet.io.folders import FilePiece, Folder, InputFile, Noted, file_pieces
from watersmeet.io.source import Extent, History, LeftOut, StreamSource
from watersmeet.io.taken_files import UNKNOWN, Stamp, TakenFiles, unpacked
from watersmeet.io.watch import FolderWatch
from watersmeet.model import Stream

SELDOM = 1.0  # seconds from one look to the next where changes are reported
_WHY = {
    Reason.REWRITTEN_FILE: "it has changed after it was read, and is not read again",
    Reason.FORGOTTEN_FILE: "it is not newer than files whose names are not remembered any more, and may be one of them",
}


class FolderSource(StreamSource):
    def __init__(self, stream: Stream, settle: float, watch: FolderWatch, request: Path) -> None:
        """`watch` is that of all folders of a feed; `request` is the file by which users have files taken after all
        that were set aside."""
        super().__init__(stream)
        self._settle = settle
        self._watch = watch
        self._request = request
        self._is_retrying = False  # files that were set aside are being taken after all
        self._taken = TakenFiles()

    def resume(self, history: History) -> None:
        self._taken = taken_files(history)
        self._folder = Folder(self.stream, self._taken, self._settle, self._watch)

    @property
    def position(self) -> dict[str, Any] | None:
        return self._taken.packed() if len(self._taken) else None

    def look(self) -> None:
        if not self._folder.is_waiting:
            self._retry()
        self._folder.look()

    def _retry(self) -> None:
        """Have what was set aside taken after all, if that is requested. What waits is in a batch at the next look,
        and the batch is written down."""
        if not self._request.exists():
            return
        if self._is_retrying:
            self._request.unlink(missing_ok=True)
        else:
            self._folder.retry()
        self._is_retrying = not self._is_retrying

    def take(self) -> Extent | None:
        files, notes = self._folder.take(), self._folder.take_notes()
        return self._begun(files, [[note.name, *note.stamp, note.reason] for note in notes]) if files or notes else None

    def repeat(self, extent: Extent) -> Extent:
        """The same files as they are now."""
        files = {name: self._folder.stamp_of(name) or stamp for name, stamp in _files(extent).items()}
        return self._begun(files, extent["noted"])

    def _begun(self, files: Mapping[str, Stamp], noted: list[list[Any]]) -> Extent:
        extent = {"files": [[name, *stamp] for name, stamp in files.items()], "noted": noted}
        _follow(self._taken, extent, None)
        return extent

    def pieces(self, extent: Extent, tasks: int) -> Sequence[FilePiece]:
        files = [InputFile(self._folder.path(name), stamp) for name, stamp in _files(extent).items()]
        return file_pieces(self.stream.name, files)

    def finish(self, extent: Extent, rejected: Mapping[str, InputError], rows: int) -> tuple[Any, list[LeftOut]]:
        files, path = _files(extent), self._folder.path
        self._folder.counted(rows, sum(stamp.size for stamp in files.values()))
        back, aside = self._folder.rejected(files, [name for name in files if path(name) in rejected])
        outcome = {"back": sorted(back), "aside": sorted(aside)} if back or aside else None
        if outcome is not None or any(map(self._was_rejected, files)):
            _follow(self._taken, extent, outcome)
        left_out = [LeftOut(path(n.name), _WHY[n.reason], n.reason) for n in _notes(extent)]
        return outcome, left_out + set_aside({path(name): rejected[path(name)] for name in files if name in aside})

    def _was_rejected(self, name: str) -> bool:
        """Whether an earlier try at the tick could not read a file."""
        return self._taken.stamp_of(name) is None or name in self._taken.aside

    def expects_more(self, waited: float) -> bool:
        return waited < 2 * self._settle + 1 and self._folder.is_changing  # files that are being written

    def pause(self, took: float) -> float:
        return SELDOM if self._folder.is_watched and not self._folder.is_changing else super().pause(took)

    @property
    def bells(self) -> Sequence[int]:
        return self._watch.bells

    def close(self) -> None:
        self._watch.close()


def set_aside(rejected: Mapping[str, InputError]) -> list[LeftOut]:
    """Files that are not the stream's."""
    return [LeftOut(path, why.problem, Reason.UNREADABLE_FILE, why.detail) for path, why in rejected.items()]


def taken_files(history: History) -> TakenFiles:
    taken = unpacked(history.before) if history.before is not None else TakenFiles()
    for extent, outcome in history.batches:
        _follow(taken, extent, outcome)
    return taken


def _follow(taken: TakenFiles, extent: Extent, outcome: Any) -> None:
    files = _files(extent)
    files.update(_file(listed) for listed in (outcome or {}).get("now", ()))  # an earlier version, of a repeated batch
    for name, stamp in files.items():
        taken.add(name, stamp)
    for note in _notes(extent):
        (taken.set_aside if note.reason is Reason.FORGOTTEN_FILE else taken.add)(note.name, note.stamp)
    if outcome is not None:
        for name in outcome["back"]:
            taken.give_back(name)
        for name in outcome["aside"]:
            taken.set_aside(name, files.get(name, UNKNOWN))


def _files(extent: Extent) -> dict[str, Stamp]:
    return dict(map(_file, extent["files"]))


def _file(listed: str | list[Any]) -> tuple[str, Stamp]:
    """A file of a batch; earlier versions wrote its name only."""
    if isinstance(listed, str):
        return listed, UNKNOWN
    name, size, date = listed
    return name, Stamp(size, date)


def _notes(extent: Extent) -> list[Noted]:
    return [Noted(name, Stamp(size, date), Reason(why)) for name, size, date, why in extent["noted"]]
