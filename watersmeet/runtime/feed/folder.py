"""A feed of streams that are folders of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.io.folders import Folder, InputFile, is_folder
from watersmeet.io.positions import Files, Notes, load_positions
from watersmeet.io.sources import missing_folder
from watersmeet.io.watch import Watch
from watersmeet.model import Stream
from watersmeet.runtime.feed.batches import FileBatch, Rejected
from watersmeet.runtime.feed.polling import SELDOM, Pace, PollingFeed
from watersmeet.runtime.loop import TickLoop


def reads_folders(home: Path, group: str, streams: Sequence[Stream]) -> bool:
    """Whether tasks read the files of a group themselves. A group keeps the way in which it was begun."""
    if layout.checkpoint(home, group).exists():
        return False
    strange = [stream for stream in streams if not is_folder(stream)]
    if strange and layout.positions(home, group).exists():
        raise missing_folder(strange[0]) or StateError(
            f"stream {strange[0].name} is a folder of Parquet files in this home, but is declared differently now",
            hint="declare it as before, with no option other than maxFilesPerTrigger and maxBytesPerTrigger, "
            "or use another --home",
        )
    return not strange


class FolderFeed(PollingFeed):
    def __init__(self, loop: TickLoop, group: str, streams: Sequence[Stream], pace: Pace, settle: float) -> None:
        super().__init__(loop, group, pace)
        self._streams = tuple(streams)
        self._positions = load_positions(loop.home, group)
        self._watch = Watch()
        self._folders = {s.name: Folder(s, self._positions.of(s.name), settle, self._watch) for s in streams}
        self._patience = 2 * settle + 1  # seconds that `once` waits for files that are being written
        self._retried: set[str] = set()  # streams whose files that were set aside are being taken after all
        self._thread.start()

    def _begun(self) -> FileBatch | None:
        if self._positions.batch <= self._loop.manifest.batches.get(self._group, -1):
            return None
        return self._repeated()

    def stop(self) -> None:
        self._stopped.set()
        self._watch.wake()
        super().stop()

    def _rest(self, seconds: float) -> None:
        self._watch.wait(seconds)

    def _close(self) -> None:
        self._watch.close()

    def _until_next_look(self, taken: float) -> float:
        if all(folder.is_watched and not folder.is_changing for folder in self._folders.values()):
            return SELDOM  # changes are reported
        return super()._until_next_look(taken)

    def _expects_more(self, waited: float) -> bool:
        return waited < self._patience and any(folder.is_changing for folder in self._folders.values())

    def _look(self) -> None:
        for name, folder in self._folders.items():
            if not folder.is_waiting:
                self._retry(name, folder)
            folder.look()

    def _retry(self, name: str, folder: Folder) -> None:
        """Have what was set aside taken after all, if that is requested. What waits is in a batch at the next look,
        and the batch is written down."""
        request = layout.retry_request(self._loop.home, name)
        if not request.exists():
            return
        if name in self._retried:
            self._retried.discard(name)
            request.unlink(missing_ok=True)
        else:
            self._retried.add(name)
            folder.retry()

    def _take(self) -> FileBatch | None:
        files = {name: taken for name, folder in self._folders.items() if (taken := folder.take())}
        notes = {name: noted for name, folder in self._folders.items() if (noted := folder.take_notes())}
        if not files and not notes:
            return None
        # The batch that is probed now, if there is one, has been written down by now.
        return self._batch(self._positions.batch + 1, files, notes, lambda: self._positions.begin(files, notes))

    def _repeated(self) -> FileBatch:
        """The batch that was begun before a crash, with its files as they are now."""
        log = self._positions
        now = {
            stream: {name: self._folders[stream].stamp_of(name) or stamp for name, stamp in files.items()}
            for stream, files in log.files.items()
        }
        log.repeat(now)
        return self._batch(log.batch, now, log.notes, lambda: None)

    def _batch(self, number: int, files: Files, notes: Notes, write_down: Callable[[], None]) -> FileBatch:
        found = {
            stream: [InputFile(self._folders[stream].path(name), stamp) for name, stamp in some.items()]
            for stream, some in files.items()
        }
        noted = {
            stream: [(self._folders[stream].path(note.name), note.reason) for note in some]
            for stream, some in notes.items()
        }
        done = (write_down, self._set_aside, noted, lambda stream, *read: self._folders[stream].counted(*read))
        return FileBatch(self._group, number, self._streams, found, self._loop.home, *done)

    def _set_aside(self, rejected: Rejected) -> Rejected:
        """Called before the tick of the newest batch is committed; the other files are tried once more."""
        back: dict[str, set[str]] = {}
        aside: dict[str, set[str]] = {}
        for stream, files in self._positions.files.items():
            folder = self._folders[stream]
            names = [name for name in files if folder.path(name) in rejected.get(stream, ())]
            back[stream], aside[stream] = folder.rejected(files, names)
        self._positions.reject(back, aside)
        paths = {stream: {self._folders[stream].path(name): name for name in names} for stream, names in aside.items()}
        return {s: {path: why for path, why in files.items() if path in paths[s]} for s, files in rejected.items()}
