"""Delivery of a tick's results after the commit: to Python callables and to the console."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.errors import RunError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.home.manifest import Manifest
from watersmeet.io.result_reader import set_up
from watersmeet.io.sources import spark_path
from watersmeet.model import Query
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.orders import GatherReport, HeadOrder
from watersmeet.terminal import visible

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

    def connect(
        self, executor: Executor, spark: Callable[[], SparkSession], queries: Callable[[], Mapping[str, Query]]
    ) -> None:
        self._executor, self._spark, self._queries = executor, spark, queries

    def register(self, query: str, deliver: Deliver) -> None:
        self._callables.setdefault(query, []).append(deliver)

    def forget(self, query: str) -> None:
        self._callables.pop(query, None)

    def gathered(self, reports: Sequence[GatherReport]) -> None:
        """Nothing is to be delivered before the commit."""

    def committed(self, manifest: Manifest) -> None:
        for name, query in list(self._queries().items()):
            # After a restart, those of the last tick may have been read and deleted.
            files = [file.final for file in manifest.results if file.query == name and os.path.exists(file.final)]
            wanted = name in self._callables or query.sink.format == "console"
            if not files or not wanted or self._last(name) >= manifest.tick:
                continue
            if query.sink.format == "console":
                self._print(query, files, manifest.tick)
            for deliver in self._callables.get(name, ()):
                self._call(query, deliver, files, manifest.tick)
            write_whole(layout.delivered(self._home, name), str(manifest.tick))

    def _last(self, name: str) -> int:
        path = layout.delivered(self._home, name)
        text = path.read_text() if path.exists() else ""
        return int(text) if text.isdigit() else 0

    def _call(self, query: Query, deliver: Deliver, files: list[str], tick: int) -> None:
        try:
            deliver(set_up(self._spark().read, query).load([spark_path(file) for file in files]), tick)
        except Exception as problem:
            raise RunError(
                f"the callable of query {query.name} failed on tick {tick}: {type(problem).__name__}: {problem}",
                detail="The tick is committed and its result files are complete; the callable has not processed them.",
                hint="correct it and start again with the same home: the tick is delivered again",
            ) from problem

    def _print(self, query: Query, files: list[str], tick: int) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        limit = int(dict(query.sink.options).get("rows", _CONSOLE_ROWS))
        table = Table(title=Text(f"{query.name}, tick {tick}"))
        for output in query.outputs:
            table.add_column(Text(visible(output.name)))
        total = shown = 0
        for file in files:
            for rows, count in self._executor.submit(HeadOrder("", file, limit - shown)).result():
                total += count
                for row in rows.to_pylist():
                    table.add_row(*(Text(visible(str(value))) for value in row.values()))
                    shown += 1
        if total > shown:
            table.caption = f"{shown} of {total} results"
        Console().print(table)
