"""Changes of a home on which no engine runs: they are checked as far as the home allows and written into its log.

They are active from the next start on. The home knows its streams, its queries and where their results go, but not the
predicates that a program registers.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path

from watersmeet.control.change_log import append_entries, entries_of, read_entries, still_suspended
from watersmeet.control.changes import Activated, Add, Change, ChangeRequest, Drop, missed, not_written
from watersmeet.control.description import Described, describe, read_description, write_description
from watersmeet.errors import ModelError, StateError
from watersmeet.home import layout
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import Suspension, load_newest, tag_of
from watersmeet.home.sealed import read_sealed
from watersmeet.io.ownership import Owner, check_owner
from watersmeet.io.sinks import check_folder
from watersmeet.model import Column, Query, Stream
from watersmeet.pipeline import Pipeline


def is_a_home(home: Path) -> bool:
    return (home / layout.LOCK).exists() and (home / layout.GROUPS).exists()


def declared_in(home: Path) -> Pipeline:
    """The streams of a home, as far as queries read them."""
    try:
        groups = read_sealed(home / layout.GROUPS)
        shapes = {name: shape for members in groups.values() for name, shape in members.items()}
        streams = {
            name: Stream(name, tuple(Column(column, kind) for column, kind in shape["columns"]), shape["time"])
            for name, shape in shapes.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise StateError(f"{home / layout.GROUPS} cannot be read", detail=str(problem)) from None
    return Pipeline(home=home, streams=streams)


def change_stopped(home: Path, asked: ChangeRequest) -> Activated:
    """Check the changes of a request, and write all of them into the log or none."""
    with home_lock(home):
        manifest = load_newest(home)
        suspended = still_suspended(manifest, read_entries(home))
        known = read_description(home)
        queries: dict[str, Query] = {}
        for change in asked.changes:
            known = _described_after(home, known, change, suspended, queries)
        tick, now = manifest.tick + 1, time.monotonic()
        try:
            resumed = {name: one.id for name, one in suspended.items()}
            append_entries(home, entries_of([asked], queries, resumed, tick, now))
            write_description(home, known)
        except OSError as problem:
            raise not_written(home, problem) from None
        return Activated(tick, now - asked.at, missed(asked.changes, suspended, tick))


def _described_after(
    home: Path,
    known: dict[str, Described],
    change: Change,
    suspended: dict[str, Suspension],
    queries: dict[str, Query],
) -> dict[str, Described]:
    """The queries of a home after a change; raises if it cannot be done. `queries` are those that it is about."""
    name = change.query.name if isinstance(change, Add) else change.name
    if isinstance(change, Add):
        if name in known:
            raise ModelError(
                f"a query named {name} exists already",
                hint=f"drop it first: watersmeet drop {name}, or DROP QUERY {name} in the same request",
            )
        added = Pipeline(home=home).with_query(change.query).queries[name]
        (described,) = describe(home, [added]).values()
        for other, one in known.items():
            if one.folder == described.folder:
                raise ModelError(f"query {name} would write into the folder of query {other}: {one.folder}")
        check_folder(Path(described.folder), added.outputs)
        check_owner(name, Path(described.folder), added.sink, Owner(tag_of(home, load_newest(home)), home))
        queries[name] = replace(added, addition=secrets.token_hex(8))
        return {**known, name: described}
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise ModelError(f"there is no query named {name}", detail=f"Queries: {listed}.")
    if isinstance(change, Drop):
        queries.pop(name, None)
        return {other: one for other, one in known.items() if other != name}
    if name not in suspended:
        raise ModelError(f"query {name} is not suspended", hint="`watersmeet list` shows which queries are")
    return known
