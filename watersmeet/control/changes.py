"""Changes of the set of queries: requests, and whether they are valid. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.errors import ModelError, RunError, SourcePlace, SqlError, WatersmeetError
from watersmeet.home.manifest import Suspension
from watersmeet.io.sinks import check_folder
from watersmeet.model import Query
from watersmeet.pipeline import Pipeline, pointing_at
from watersmeet.sql import CreateQuery, CreateStream, parse_script


@dataclass(frozen=True)
class Add:
    query: Query
    place: SourcePlace | None = None


@dataclass(frozen=True)
class Drop:
    name: str
    place: SourcePlace | None = None


@dataclass(frozen=True)
class Resume:
    """A suspended query to be resumed."""

    name: str


Change = Add | Drop | Resume


@dataclass(frozen=True)
class ChangeRequest:
    """One request: all of its changes, or none. `at` is the monotonic time of the request."""

    at: float
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Activated:
    """The tick from which a request is active, and the seconds until that was fixed."""

    tick: int
    latency: float
    text: str = ""  # what else there is to say


Verdict = Activated | WatersmeetError


def read_changes(script: str, file: str, folder: str, pipeline: Pipeline) -> tuple[Change, ...]:
    """The changes that a script asks for; relative paths in it are relative to `folder`."""
    changes: list[Change] = []
    for statement in parse_script(script, file):
        if isinstance(statement, CreateStream):
            raise SqlError(
                "other processes can add queries to a running engine, but not streams",
                hint="declare the stream in the pipeline and restart with the same home, or use engine.stream(…)",
                place=statement.place,
            )
        if isinstance(statement, CreateQuery):
            changes.append(Add(pipeline.created_by(statement, folder), statement.place))
        else:
            changes.append(Drop(statement.name, statement.place))
    if not changes:
        raise ModelError("the request has no statement", hint="write CREATE QUERY … or DROP QUERY …")
    return tuple(changes)


def changed(
    pipeline: Pipeline, changes: Sequence[Change], running: bool, suspended: Mapping[str, Suspension]
) -> Pipeline:
    """The pipeline after the changes, in order; raises for the first that cannot be done."""
    for change in changes:
        if isinstance(change, Resume):
            pipeline = _resumed(pipeline, change.name, suspended)
            continue
        with pointing_at(change.place):
            if isinstance(change, Drop):
                pipeline = pipeline.without_query(change.name)
                continue
            pipeline = pipeline.with_query(change.query)
            if running:  # before the start, a folder is checked when it is needed
                check_folder(pipeline.folder_of(change.query), change.query.outputs)
    return pipeline


def _resumed(pipeline: Pipeline, name: str, suspended: Mapping[str, Suspension]) -> Pipeline:
    query, found = pipeline.known_query(name), suspended.get(name)
    if found is None or query.resumed == found.id:
        raise ModelError(f"query {name} is not suspended", hint="`watersmeet list` shows which queries are")
    return replace(pipeline, queries={**pipeline.queries, name: replace(query, resumed=found.id)})


def missed(changes: Sequence[Change], suspended: Mapping[str, Suspension], tick: int) -> str:
    """Which results are missing of queries that are resumed from a tick on."""
    lines = []
    for change in changes:
        if isinstance(change, Resume) and change.name in suspended:
            first, last = suspended[change.name].tick, tick - 1
            ticks = f"tick {first}" if first == last else f"ticks {first} to {last}"
            lines.append(f"{change.name}: the results of {ticks} are missing")
    return "\n".join(lines)


def not_written(home: Path, problem: OSError) -> RunError:
    return RunError(
        f"the change cannot be written into the home {home}",
        detail=f"{problem}. Nothing was changed.",
        hint="free some space or check the permissions, and send the request again",
    )
