"""A feed and its sources: how long it rests, and how it stops. What it reads is tested by its kinds of sources."""

from __future__ import annotations

import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE
from watersmeet.errors import InputError
from watersmeet.home.manifest import Manifest
from watersmeet.io.folder_source import FolderSource
from watersmeet.io.positions import load_positions
from watersmeet.io.source import History, LogSource, Piece, StreamSource, Unreachable
from watersmeet.io.watch import FolderWatch
from watersmeet.model import Column, Source, Stream
from watersmeet.runtime.feed import source_feed
from watersmeet.runtime.feed.source_feed import Pace, SourceFeed


def stream(name: str, path: str = "somewhere") -> Stream:
    return Stream(name, (Column("t", "timestamp"),), "t", source=Source("parquet", path))


class Nothing(StreamSource):
    """A source that has no rows."""

    position = None

    def resume(self, history: History) -> None: ...

    def look(self) -> None: ...

    def take(self) -> None:
        return None

    def pieces(self, extent: Any, tasks: int) -> Sequence[Piece]:
        return ()


def feed_of(home: Path, sources: list[StreamSource], *, once: bool = False) -> SourceFeed:
    run = lambda batch, following: batch.begin()  # noqa: E731
    loop: Any = types.SimpleNamespace(home=home, manifest=Manifest(), run=run)
    by_name = {source.stream.name: source for source in sources}
    pace = Pace(0.0, once, lambda: True)
    return SourceFeed(loop, "0", [source.stream for source in sources], by_name, pace)


def test_a_feed_of_many_sources_rests_as_long_as_a_look_at_all_of_them_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [0.0], []

    class Slow(Nothing):
        def look(self) -> None:
            now[0] += 3

        def pause(self, took: float) -> float:
            asked.append(took)
            return 0.0

    monkeypatch.setattr(source_feed, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    feed_of(tmp_path, [Slow(stream("a")), Slow(stream("b"))], once=True).wait()
    assert asked == [6, 6]


def test_a_feed_that_is_stopped_makes_no_more_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, begun = [], threading.Event()

    class Away(Nothing):
        def look(self) -> None:
            looks.append(1)
            begun.set()
            raise Unreachable("nobody replies")

    monkeypatch.setattr(source_feed, "_RETRY", 600)
    feed = feed_of(tmp_path, [Away(stream("a"))])
    assert begun.wait(PATIENCE)
    feed.stop()
    assert (len(looks), feed.problem) == (1, None)


def test_what_had_no_rows_is_not_looked_for_again(tmp_path: Path) -> None:
    """A table may have deleted the log of versions that were passed."""

    class Numbers(LogSource):
        has_rows = True

        def first(self) -> int:
            return 0

        def next(self, at: int) -> int:
            return min(at + 5, 10)

        def pieces(self, extent: Any, tasks: int) -> Sequence[Piece]:
            return super().pieces(extent, tasks) if self.has_rows and extent[0] != extent[1] else ()

    class Empty(Numbers):
        has_rows = False

    feed_of(tmp_path, [Numbers(stream("a")), Empty(stream("b"))], once=True).wait()
    log = load_positions(tmp_path, "0")
    assert (log.batch, log.extents) == (1, {"a": [5, 10], "b": [10, 10]})


def test_a_file_that_only_another_try_at_the_tick_could_read_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_text("content")
    watch = FolderWatch()
    source = FolderSource(stream("a", str(tmp_path / "in")), 0.0, watch, tmp_path / "request")
    source.resume(History())
    source.look()
    extent = source.take()
    outcome, _ = source.finish(extent, {str(tmp_path / "in/file"): InputError("it cannot be opened")}, 0)
    assert outcome == {"back": [], "aside": ["file"]}
    assert source.finish(extent, {}, 1) == (None, [])
    (tmp_path / "request").touch()  # have all taken that was set aside
    source.look()
    assert source.take() is None
    source.close()
