"""Changes of the set of queries: what is asked for, and whether it can be done. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.errors import ModelError, Place, RunError, SqlError, WatersmeetError
from watersmeet.io.sinks import check_folder, check_sink, result_folder
from watersmeet.model import Query, Sink
from watersmeet.options import Options
from watersmeet.pipeline import Catalog
from watersmeet.sql import CreateQuery, CreateStream, parse_script


@dataclass(frozen=True)
class Add:
    query: Query
    place: Place | None = None


@dataclass(frozen=True)
class Drop:
    name: str
    place: Place | None = None


Change = Add | Drop


@dataclass(frozen=True)
class Asked:
    """One request: all of its changes, or none. `at` is the (unix) time when somebody asked."""

    at: float
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class InForce:
    """From which tick a request is obeyed, and how long that took, in seconds."""

    tick: int
    latency: float


Verdict = InForce | WatersmeetError


def read_changes(script: str, file: str, folder: str, catalog: Catalog) -> tuple[Change, ...]:
    """The changes that a script asks for; relative paths in it are relative to `folder`."""
    changes: list[Change] = []
    for statement in parse_script(script, file):
        if isinstance(statement, CreateStream):
            raise SqlError(
                "a running engine takes queries, not streams, from other processes",
                hint="declare the stream in the pipeline and start again with the same home, or use engine.stream(…)",
                place=statement.place,
            )
        if isinstance(statement, CreateQuery):
            changes.append(Add(catalog.created_by(statement, folder), statement.place))
        else:
            changes.append(Drop(statement.name, statement.place))
    if not changes:
        raise ModelError("there is no statement in the request", hint="write CREATE QUERY … or DROP QUERY …")
    return tuple(changes)


def staged(
    queries: Mapping[str, Query], changes: Sequence[Change], home: Path, options: Options, running: bool
) -> dict[str, Query]:
    """The queries as they are after the changes, in order; raises for the first that cannot be done."""
    after = dict(queries)
    for change in changes:
        try:
            if isinstance(change, Drop):
                if change.name not in after:
                    raise no_query(change.name, after)
                del after[change.name]
            else:
                after[change.query.name] = _admitted(change.query, after, home, options)
                if running:  # before the start, a folder is looked at when it is needed
                    check_folder(result_folder(home, change.query.name, change.query.sink), change.query.outputs)
        except ModelError as problem:
            if change.place is None:
                raise
            raise SqlError(problem.problem, detail=problem.detail, hint=problem.hint, place=change.place) from None
    return after


def not_written(home: Path, problem: OSError) -> RunError:
    return RunError(
        f"the change cannot be written into the home {home}",
        detail=f"{problem}. Nothing was changed.",
        hint="free some space, or see who may write there, and ask again",
    )


def no_query(name: str, queries: Mapping[str, Query]) -> ModelError:
    listed = ", ".join(sorted(queries)) or "none"
    return ModelError(f"there is no query named {name}", detail=f"Queries: {listed}.")


def _admitted(query: Query, queries: Mapping[str, Query], home: Path, options: Options) -> Query:
    """The query as it will run, if it may stand beside the others."""
    name = query.name
    if name in queries:
        raise ModelError(f"there is already a query named {name}", hint=f"drop it first: DROP QUERY {name}")
    if len(queries) >= options.max_queries:
        raise ModelError(
            f"there are {len(queries)} queries; the limit is {options.max_queries}",
            hint="drop a query, or raise the option max_queries",
        )
    query = replace(query, sink=absolute_sink(query.sink))
    check_sink(name, query.sink)
    folder = result_folder(home, name, query.sink)
    for other in queries.values():
        if result_folder(home, other.name, other.sink) == folder:
            raise ModelError(f"query {name} would write into the folder of query {other.name}: {folder}")
    return query


def absolute_sink(sink: Sink) -> Sink:
    return replace(sink, path=str(Path(sink.path).absolute())) if sink.path else sink
