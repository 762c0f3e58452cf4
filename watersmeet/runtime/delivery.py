"""Delivery of a tick's results after the commit: to Python callables and to the console."""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.errors import RunError
from watersmeet.home import layout
from watersmeet.home.files import replace_durably
from watersmeet.home.manifest import Manifest
from watersmeet.io.sinks import extension, is_outside, reader_of, result_folder
from watersmeet.io.sources import spark_path
from watersmeet.model import Query
from watersmeet.runtime.exec.batches import Observer
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.exec.looking import HeadOrder
from watersmeet.runtime.tick.suspension import is_new
from watersmeet.terminal import visible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Deliver = Callable[["DataFrame", int], None]
_CONSOLE_ROWS = 20


class Deliveries(Observer):
    """Remembers for each query the last tick delivered, so that a crash after the commit leaves nothing out.

    From its registration on, a callable gets each tick of its query at least once: `delivered/` has the last tick, and
    whoever registers again, at a start or later, first gets the ticks since then that are still in the folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._callables: dict[str, list[Deliver]] = {}
        self._executor: Executor
        self._spark: Callable[[], SparkSession]
        self._queries: Callable[[], Mapping[str, Query]] = dict
        self._suspend: Callable[[str, str], None]
        self._newest: Callable[[], Manifest] | None = None  # while the engine runs
        self._failing: dict[str, Deliver] = {}  # by query, the callable that raised when it was called last
        self._behind: set[str] = set()  # queries of which a tick may not have been delivered
        self._delivering = threading.RLock()  # a tick is committed, or somebody registers; both may do so inside

    def connect(
        self,
        executor: Executor,
        spark: Callable[[], SparkSession],
        queries: Callable[[], Mapping[str, Query]],
        suspend: Callable[[str, str], None],
        newest: Callable[[], Manifest],
    ) -> None:
        """`suspend` is called for a query whose results cannot be delivered; `newest` is what is committed."""
        self._executor, self._spark, self._queries = executor, spark, queries
        self._suspend, self._newest = suspend, newest
        self._behind = set(newest().suspended) | set(self._callables)
        for name in self._callables:  # the last tick may be delivered again, but none is left out
            self._begin(name, newest().tick - 1)

    def disconnect(self) -> None:
        self._newest = None

    def register(self, query: str, deliver: Deliver) -> None:
        """Deliver the results of a query to a callable: at once those that were committed and not delivered."""
        with self._delivering:
            failing = self._failing.pop(query, None)  # which this one replaces: it would suspend the query again
            others = [each for each in self._callables.get(query, []) if each is not failing]
            self._callables[query] = [*others, deliver]
            self._behind.add(query)
            if self._newest is not None:
                newest = self._newest()
                self._begin(query, newest.tick)
                if query in self._queries():
                    self._bring(self._queries()[query], newest)

    def takers(self) -> set[str]:
        """The queries whose results a callable gets by ticks."""
        return set(self._callables)

    def _begin(self, query: str, tick: int) -> None:
        """Record that delivery begins after this tick, unless it is known which ticks were delivered."""
        path = layout.delivered(self._home, query)
        if not path.exists():
            _write(path, max(0, tick))

    def forget(self, query: str) -> None:
        self._callables.pop(query, None)

    def committed(self, manifest: Manifest) -> None:
        with self._delivering:
            for name, query in list(self._queries().items()):
                if name in self._callables or query.sink.format == "console":
                    self._bring(query, manifest)

    def _bring(self, query: Query, manifest: Manifest) -> None:
        """Deliver the ticks of a query, up to that of the manifest, that were not delivered yet."""
        name = query.name
        if name in manifest.suspended or is_new(query, manifest):
            return
        first = manifest.queries.get(name, 0)  # what is there of earlier ticks, another query of this name has found
        # After a restart, those of the last tick may have been read and deleted.
        files = [file.final for file in manifest.results if file.query == name and os.path.exists(file.final)]
        ticks = {manifest.tick: files}
        if name in self._behind:
            ticks = self._stored_ticks(query, manifest) | ticks
        last = max(self._last(name), first - 1)
        try:
            for tick in sorted(tick for tick, files in ticks.items() if files and tick > last):
                self._deliver(query, ticks[tick], tick)
            self._behind.discard(name)
        except RunError as problem:
            self._behind.add(name)
            self._suspend(name, problem.problem)

    def _deliver(self, query: Query, files: list[str], tick: int) -> None:
        if query.sink.format == "console":
            self._print(query, files, tick)
        for deliver in self._callables.get(query.name, ()):
            self._call(query, deliver, files, tick)
        _write(layout.delivered(self._home, query.name), tick)

    def _stored_ticks(self, query: Query, newest: Manifest) -> dict[int, list[str]]:
        """The result files of earlier ticks, as they are in the folder: what was not delivered is among them."""
        found: dict[int, list[str]] = {}
        folder = result_folder(self._home, query.name, query.sink)
        tag = newest.tag if is_outside(query.sink) else ""
        for path in sorted(folder.glob(f"*.{extension(query.sink)}")):
            tick = layout.tick_of(path.name, tag)
            if tick is not None and tick < newest.tick:
                found.setdefault(tick, []).append(str(path))
        return found

    def _last(self, name: str) -> int:
        """The last tick that was delivered; where that cannot be read, none was."""
        with contextlib.suppress(OSError, ValueError):
            tick, _, checksum = layout.delivered(self._home, name).read_bytes().partition(b" ")
            if not checksum or int(checksum) == zlib.crc32(tick):  # earlier versions wrote none
                return int(tick)
        return 0

    def _call(self, query: Query, deliver: Deliver, files: list[str], tick: int) -> None:
        try:
            deliver(reader_of(self._spark().read, query).load([spark_path(file) for file in files]), tick)
            if self._failing.get(query.name) is deliver:
                del self._failing[query.name]
        except Exception as problem:
            self._failing[query.name] = deliver
            raise RunError(
                f"the callable of query {query.name} failed on tick {tick}: {type(problem).__name__}: {problem}",
                detail="The tick is committed and its result files are complete; the callable has not processed them.",
                hint="register a correct one in its place, and resume the query: the tick is delivered again",
            ) from problem

    def _print(self, query: Query, files: list[str], tick: int) -> None:
        try:
            self._show(query, files, tick)
        except Exception as problem:
            kind = type(problem).__name__
            raise RunError(f"the results of tick {tick} cannot be printed: {kind}: {problem}") from problem

    def _show(self, query: Query, files: list[str], tick: int) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        def plain(value: object) -> Text:
            return Text(visible(str(value)))  # brackets in a value are no markup

        limit = int(dict(query.sink.options).get("rows", _CONSOLE_ROWS))
        table = Table(title=Text(f"{query.name}, tick {tick}"))
        for output in query.outputs:
            table.add_column(plain(output.name))
        total = shown = 0
        for file in files:
            for rows, count in self._executor.submit(HeadOrder("", file, limit - shown)).result():
                total += count
                for row in rows.to_pylist():
                    table.add_row(*(plain(value) for value in row.values()))
                    shown += 1
        if total > shown:
            table.caption = f"{shown} of {total} results"
        Console().print(table)


def _write(path: Path, tick: int) -> None:
    text = str(tick).encode()
    replace_durably(path, b"%b %d" % (text, zlib.crc32(text)))
