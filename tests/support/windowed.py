"""Windowed queries on the engine's own tick loop and a `LocalExecutor`: rows that a test hands over, deaths, restarts,
changes of the queries; and what DuckDB gives for each window over the rows that were accepted."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.deaths import Died, dying_at
from tests.support.declarations import streams_of
from tests.support.split_batch import split_batch
from watersmeet.adapt.origins_file import recall_windows, remember_windows
from watersmeet.adapt.plan_keeper import divided, first_windows, without_left_forms
from watersmeet.home.manifest import Manifest, load_earlier
from watersmeet.home.recovery import recover
from watersmeet.io.sinks import prepare_folder, result_folder
from watersmeet.model import Query, Stream
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.options import Options
from watersmeet.plan.planner import AT_ONCE, CHANGE, Plan, make_plan
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.exec.looking import verify
from watersmeet.runtime.loop import TickLoop
from watersmeet.sql import build_query
from watersmeet.windows.drivers import DRIVERS, ClosingWindows, Driving
from watersmeet.windows.protocol import StoredWindows

SECOND = 1_000_000
GROUP = "0"


@dataclass(frozen=True)
class Asked:
    """A query for both: for DuckDB, {start} and {end} are the ends of a window whose rows are the streams."""

    sql: str
    oracle: str

    @property
    def pair(self) -> tuple[str, str]:
        return self.sql, self.oracle


@dataclass
class Life:
    """Which windows a query has to answer: those that begin from `first` on and end at or before `until`."""

    asked: Asked
    query: Query
    first: int | None
    until: int | None = None
    active: bool = True


@dataclass
class WindowedRun:
    home: Path
    declared: str
    partitions: int = 1
    tasks: int = 1
    settings: dict[str, Any] = field(default_factory=dict)  # other options
    drivers: tuple[Callable[[Executor], Driving], ...] = DRIVERS
    build: Callable[..., Query] = build_query
    lives: dict[str, Life] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # of the forms that queries are to have
    beside: dict[str, tuple[Query, str]] = field(default_factory=dict)  # continuous queries, with DuckDB's text
    accepted: dict[str, list[pa.Table]] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    plan: Plan | None = None

    def __post_init__(self) -> None:
        self.streams = streams_of(self.declared)
        self._numbers = itertools.count()
        self._input = self.home.parent / f"{self.home.name}-input"
        self._input.mkdir()
        self.restart()

    @property
    def manifest(self) -> Manifest:
        return self.loop.manifest

    # Queries come and go -------------------------------------------------------------------------

    def add(
        self,
        name: str,
        asked: Asked,
        backfill: bool = False,
        addition: str = "",
        kind: str = "",
        may_change: bool = False,
    ) -> None:
        """With BACKFILL the streams have to be retained for so long that all their rows are stored. The query has its
        form of this kind, from which it may change to others, or the one that the planner chooses."""
        query = self.build(name, asked.sql, self.streams, backfill=backfill)
        assert query.is_windowed
        if kind and not may_change:
            (form,) = (each for each in query.forms or (query.form,) if each.kind == kind)
            query = replace(query, form=form, forms=(form,))
        known = [self.newest[stream] + 1 for stream in query.streams if stream in self.newest]
        first = None if backfill or not known else query.grid.beginning(max(known))
        self.lives[name] = Life(asked, replace(query, addition=addition), first)
        prepare_folder(result_folder(self.home, name, query.sink), query.sink, query.outputs)
        self.kinds |= {name: kind} if may_change else {}
        self._adopt()

    def add_continuous(self, name: str, asked: Asked) -> None:
        """A query without windows, before any row; the streams of DuckDB's text are `all_…`."""
        query = build_query(name, asked.sql, self.streams)
        assert not query.is_windowed and not self.accepted
        self.beside[name] = query, asked.oracle
        prepare_folder(result_folder(self.home, name, query.sink), query.sink, query.outputs)
        self._adopt()

    def _active(self, manifest: Manifest) -> tuple[Query, ...]:
        windowed = (life.query for life in self.lives.values() if life.active)
        active, _ = divided((*windowed, *(query for query, _ in self.beside.values())), manifest)
        return tuple(active)

    def use(self, name: str, kind: str) -> None:
        """The query is computed in another of its forms."""
        life = self.lives[name]
        forms = build_query(name, life.asked.sql, self.streams).forms
        (form,) = (each for each in forms if each.kind == kind)
        life.query = replace(life.query, form=form, forms=(form,))
        self._adopt()

    def drop(self, name: str) -> None:
        self.lives[name].active = False
        self._adopt()

    def change(self, kind: str) -> None:
        """Let queries that have a form of this kind, and have left their last one, change to it."""
        self.kinds |= {name: kind for name, life in self.lives.items() if kind in kinds_of(life.query)}
        self._adopt()

    @property
    def leaving(self) -> dict[str, int]:
        """By query that is leaving a form, the first window of its new one."""
        assert self.plan is not None
        return first_windows(self.plan, self.manifest)

    def _adopt(self) -> None:
        before, options, manifest = self.plan, self._options(), self.manifest
        active = self._active(manifest)
        stored = StoredWindows(complete=manifest.complete)
        following = without_left_forms(before, manifest) if before else None
        self.plan = make_plan(
            CHANGE, tuple(self.streams.values()), active, options, active=following, stored=stored, changed=self.kinds
        )
        known = before.windows.remembered if before else StoredWindows()
        remember_windows(self.home, known.joined(self.plan.windows.remembered), known)
        self.loop.adopt(self.plan)

    def restart(self) -> None:
        executor = LocalExecutor(self.tasks)
        manifest = recover(self.home, [], [partial(verify, executor)])
        kept = (manifest, *load_earlier(self.home, manifest.tick)[:1])
        named = {bucket.file for one in kept for bucket in one.buckets}
        on_disk = {str(path.relative_to(self.home)) for path in (self.home / "state").glob("*/*")}
        assert on_disk == named, "state that no manifest names was left, or state is missing"
        remembered = recall_windows(self.home, lambda name, text: self.build(name, text, self.streams))
        stored = replace(remembered, complete=manifest.complete, answered=frozenset(manifest.windows))
        options = self._options()
        active = self._active(manifest)
        streams = tuple(self.streams.values())
        self.plan = make_plan(AT_ONCE, streams, active, options, stored=stored, changed=self.kinds)
        remember_windows(self.home, self.plan.windows.remembered, remembered)
        self.loop = TickLoop(self.home, manifest, self.plan, executor)
        self.loop.execution.windows = ClosingWindows(executor, self.drivers)

    def _options(self) -> Options:
        return Options(partitions=self.partitions, **self.settings)

    # Ticks ---------------------------------------------------------------------------------------

    def tick(self, rows: dict[str, pa.Table], killed: str = "") -> None:
        """One tick. At the point `killed` the process dies; after a restart the tick is repeated if it has to be."""
        number = self.manifest.batches.get(GROUP, -1) + 1
        files = {name: self._files(piece) for name, piece in rows.items() if piece.num_rows}
        batch = split_batch(GROUP, number, tuple(self.streams.values()), files, self.home)
        with dying_at(killed), contextlib.suppress(Died):
            self.loop.run(batch)
        if killed:
            self.restart()
            if self.manifest.batches.get(GROUP, -1) < number:
                self.loop.run(split_batch(GROUP, number, batch.streams, files, self.home))
        self._account(rows)

    def settle(self, killed: str = "") -> None:
        """Ticks without rows, until nothing is left; at the point `killed` the process dies."""
        with dying_at(killed), contextlib.suppress(Died):
            self.loop.settle(0)
        if killed:
            self.restart()
            self.loop.settle(0)

    def flush(self, killed: str = "") -> None:
        with dying_at(killed), contextlib.suppress(Died):
            self.loop.flush()
        if killed:
            self.restart()
            self.loop.flush()
        for life in self.lives.values():
            times = [self.newest[stream] for stream in life.query.streams if stream in self.newest]
            if life.active and times:
                life.until = life.query.grid.end(life.query.grid.last(max(times)))

    def _files(self, rows: pa.Table) -> list[str]:
        share = max(1, -(-rows.num_rows // self.tasks))
        made = []
        for begin in range(0, rows.num_rows, share):
            path = str(self._input / f"{next(self._numbers)}.parquet")
            pq.write_table(rows.slice(begin, share), path, row_group_size=7)
            made.append(path)
        return made

    def _account(self, rows: dict[str, pa.Table]) -> None:
        for name, piece in rows.items():
            times = piece.column(self.streams[name].time).cast(pa.int64()).to_numpy()
            late = self.newest[name] - self.streams[name].lateness if name in self.newest else None
            kept = piece if late is None else piece.filter(pa.array(times >= late))
            self.accepted.setdefault(name, []).append(kept)
            if kept.num_rows:
                self.newest[name] = max(int(times.max()), self.newest.get(name, int(times.max())))
        for life in self.lives.values():
            marks = [self.newest.get(name, -(1 << 61)) - self.streams[name].lateness for name in life.query.streams]
            if life.active and min(marks) > -(1 << 60):
                life.until = max(min(marks), life.until if life.until is not None else min(marks))

    # What is expected ----------------------------------------------------------------------------

    def check(self) -> None:
        assert self.manifest.suspended == {}
        for name, life in self.lives.items():
            found = self.found(name, life.query)
            assert found == self._expected(life), name
        for name, (query, oracle) in self.beside.items():
            assert self.found(name, query) == self._joined(query, oracle), name

    def found(self, name: str, query: Query) -> Counter[tuple[object, ...]]:
        folder = result_folder(self.home, name, query.sink)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            relation = connection.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')")
            return Counter(map(plain, relation.fetchall()))

    def _joined(self, query: Query, oracle: str) -> Counter[tuple[object, ...]]:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, table in self._tables(query).items():
                connection.register(f"all_{name}", table)
            return Counter(map(plain, connection.execute(oracle).fetchall()))

    def _tables(self, query: Query) -> dict[str, pa.Table]:
        read = [self.streams[name] for name in query.streams]
        return {each.name: pa.concat_tables(self.accepted.get(each.name) or [_as_read(each)]) for each in read}

    def _expected(self, life: Life) -> Counter[tuple[object, ...]]:
        read, tables = [self.streams[name] for name in life.query.streams], self._tables(life.query)
        return in_windows(life.query.grid, life.asked.oracle, tables, life.until, life.first, read[0].time)


def kinds_of(query: Query) -> list[str]:
    """The kinds of the forms that a query could be computed in."""
    return [form.kind for form in query.forms or (query.form,)]


def _as_read(stream: Stream) -> pa.Table:
    """No rows."""
    table = stream.schema.empty_table()
    at = table.column_names.index(stream.time)
    return table.set_column(at, stream.time, table.column(at).cast(pa.timestamp("us", "UTC")))


def containing(grid: SlidingWindow, time: int) -> range:
    """The windows that contain a time."""
    return range(grid.first(time), grid.last(time) + 1, grid.slide)


def in_windows(
    grid: SlidingWindow,
    asked: str,
    tables: dict[str, pa.Table],
    until: int | None,
    first: int | None = None,
    time: str = "ts",
) -> Counter[tuple[object, ...]]:
    """What DuckDB gives for all windows with rows that begin from `first` on and end at or before `until`. `time` is
    the column with the event time of all streams."""
    found: Counter[tuple[object, ...]] = Counter()
    moment = f'epoch_us("{time}")'
    times = [each for table in tables.values() for each in table.column(time).cast(pa.int64()).to_pylist()]
    starts = {start for each in times for start in containing(grid, each)}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(f"all_{name}", table)
        for start in sorted(starts):
            end = grid.end(start)
            if until is None or end > until or (first is not None and start < first):
                continue
            for name in tables:
                inside = f"SELECT * FROM all_{name} WHERE {moment} >= {start} AND {moment} < {end}"
                connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {inside}")
            ends = {"start": f"make_timestamp({start})", "end": f"make_timestamp({end})"}
            text = asked.format(**ends, first=start, last=end)
            found.update(map(plain, connection.execute(text).fetchall()))
    return found


def plain(row: tuple[Any, ...]) -> tuple[object, ...]:
    """Values as both engines agree on them: instants without a zone, doubles without their last digits."""
    return tuple(_value(value) for value in row)


def _value(value: Any) -> object:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
