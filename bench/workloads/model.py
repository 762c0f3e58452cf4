"""A workload as plain values. Every system makes its own text from them, so all of them run the same queries.

Peers in other environments import this file too: it needs nothing but Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

MICROS = 1_000_000


@dataclass(frozen=True)
class Stream:
    """`columns` maps names to `timestamp`, `int`, `bigint` or `string`; the event time is always `ts`."""

    name: str
    columns: dict[str, str]


@dataclass(frozen=True)
class Table:
    """One use of a stream in a query; without `seconds` it has no window."""

    alias: str
    stream: str
    seconds: int | None = None


@dataclass(frozen=True)
class Query:
    """Each of `tables` is joined to one before it: systems without an optimizer of join orders follow this order."""

    name: str
    tables: tuple[Table, ...]
    equalities: tuple[tuple[str, str], ...]  # such as ("r.a", "s.a")
    columns: tuple[str, ...]  # such as "r.id"; the result's column is r_id
    filters: tuple[str, ...] = ()

    @property
    def windowed(self) -> bool:
        return all(table.seconds is not None for table in self.tables)

    def joins(self) -> Iterator[tuple[Table, list[tuple[str, str]]]]:
        """Each table but the first, with the equalities (known, new) that connect it to those before it."""
        known = {self.tables[0].alias}
        for table in self.tables[1:]:
            pairs = []
            for left, right in self.equalities:
                ends = {left.split(".")[0]: left, right.split(".")[0]: right}
                if table.alias in ends:
                    (other,) = (alias for alias in ends if alias != table.alias)
                    if other in known:
                        pairs.append((ends[other], ends[table.alias]))
            if not pairs:
                raise ValueError(f"{self.name}: {table.alias} is not connected to the tables before it")
            yield table, pairs
            known.add(table.alias)

    def needed(self, alias: str) -> list[str]:
        """The columns of an alias that the query reads, apart from the event time."""
        names = [*self.columns, *(end for pair in self.equalities for end in pair)]
        names += [filter_.split(" ")[0] for filter_ in self.filters]
        wanted = dict.fromkeys(name.split(".")[1] for name in names if name.split(".")[0] == alias)
        return [name for name in wanted if name != "ts"]

    def near(self, micros: str) -> list[str]:
        """The windows as conditions on pairs; `micros` writes an alias's event time as a number."""
        return [
            f"{micros.format(other.alias)} - {micros.format(table.alias)} <= {table.seconds * MICROS}"
            for table in self.tables
            for other in self.tables
            if table.seconds is not None and other.alias != table.alias
        ]


@dataclass(frozen=True)
class Workload:
    """`folder` has a folder of Parquet files for each stream, one file a tick; `rows` are a stream's rows by tick."""

    name: str
    folder: str
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    rows: dict[str, list[int]]
    warm_up: int = 2  # ticks that are not counted: compilers and caches
    sink: str = ""  # of Watersmeet's queries, where rows are not what the workload is about
    embedded: bool = False  # Watersmeet runs without Spark tasks

    @property
    def ticks(self) -> int:
        return max(map(len, self.rows.values()))

    def stream(self, name: str) -> Stream:
        return next(stream for stream in self.streams if stream.name == name)

    def used(self) -> set[str]:
        return {table.stream for query in self.queries for table in query.tables}

    def counted(self, skip: int = 0) -> dict[str, int]:
        """Input rows of each stream that some query reads, after the first `skip` ticks."""
        return {name: sum(self.rows[name][skip:]) for name in sorted(self.used())}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Workload:
        made = json.loads(text)
        queries = tuple(
            Query(
                query["name"],
                tuple(Table(**table) for table in query["tables"]),
                tuple((left, right) for left, right in query["equalities"]),
                tuple(query["columns"]),
                tuple(query["filters"]),
            )
            for query in made["queries"]
        )
        streams = tuple(Stream(**stream) for stream in made["streams"])
        return Workload(**{**made, "streams": streams, "queries": queries})


@dataclass(frozen=True)
class Outcome:
    """What a system did: how long the rows that count took, and when (wall clock), for the CPU time of that part."""

    seconds: float
    spans: list[tuple[float, float]]
    skipped: int  # ticks at the start that are not counted
    results: dict[str, int]
    state_bytes: int | None
    parts: dict[str, float]  # seconds of the stages of a tick, where known
