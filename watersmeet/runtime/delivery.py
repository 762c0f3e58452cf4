"""Delivery of a tick's results after the commit: to Python callables and to the console."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.errors import RunError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.home.manifest import Manifest
from watersmeet.io.printable import printable
from watersmeet.io.sinks import extension, result_folder
from watersmeet.model import Query
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import GatherReport, HeadOrder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Deliver = Callable[["DataFrame", int], None]
_CONSOLE_ROWS = 20


class Deliveries:
    """Remembers for each query the last tick delivered, so that a crash after the commit leaves nothing out."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._callables: dict[str, list[Deliver]] = {}
        self._executor: Executor
        self._spark: Callable[[], SparkSession]
        self._queries: Callable[[], Mapping[str, Query]] = dict
        self._suspend: Callable[[str, str], None]
        self._behind: set[str] = set()  # queries of which a tick may not have been delivered

    def connect(
        self,
        executor: Executor,
        spark: Callable[[], SparkSession],
        queries: Callable[[], Mapping[str, Query]],
        suspend: Callable[[str, str], None],
        suspended: Collection[str],
    ) -> None:
        """`suspend` is called for a query whose results cannot be delivered; `suspended` are suspended already."""
        self._executor, self._spark, self._queries = executor, spark, queries
        self._suspend, self._behind = suspend, set(suspended)

    def register(self, query: str, deliver: Deliver) -> None:
        self._callables.setdefault(query, []).append(deliver)

    def forget(self, query: str) -> None:
        self._callables.pop(query, None)

    def gathered(self, reports: Sequence[GatherReport]) -> None:
        """Nothing is to be delivered before the commit."""

    def committed(self, manifest: Manifest) -> None:
        for name, query in list(self._queries().items()):
            wanted = name in self._callables or query.sink.format == "console"
            if not wanted or name in manifest.suspended:
                continue
            ticks = {manifest.tick: [file.final for file in manifest.results if file.query == name]}
            if name in self._behind:
                ticks = self._stored_ticks(query, manifest.tick) | ticks
            last = self._last(name)
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
            self._call(query.name, deliver, files, tick)
        write_whole(layout.delivered(self._home, query.name), str(tick))

    def _stored_ticks(self, query: Query, before: int) -> dict[int, list[str]]:
        """The result files of a query by tick, as they are in its folder: what was not delivered is among them."""
        found: dict[int, list[str]] = {}
        folder = result_folder(self._home, query.name, query.sink)
        for path in sorted(folder.glob(f"*.{extension(query.sink)}")):
            number = path.name.partition("-")[0]
            if number.isdigit() and int(number) < before:
                found.setdefault(int(number), []).append(str(path))
        return found

    def _last(self, name: str) -> int:
        path = layout.delivered(self._home, name)
        text = path.read_text() if path.exists() else ""
        return int(text) if text.isdigit() else 0

    def _call(self, name: str, deliver: Deliver, files: list[str], tick: int) -> None:
        kind = Path(files[0]).suffix[1:]
        try:
            deliver(self._spark().read.format(kind).load(files), tick)
        except Exception as problem:
            raise RunError(
                f"the callable of query {name} failed on tick {tick}: {type(problem).__name__}: {problem}",
                detail="The tick is committed and its result files are complete; only the callable is behind.",
                hint="correct it, and resume the query: the callable gets this tick once more",
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
            return Text(printable(str(value)))  # brackets in a value are no markup

        limit = int(dict(query.sink.options).get("rows", _CONSOLE_ROWS))
        table = Table(title=f"{query.name}, tick {tick}")
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
