"""`queries.json` in the home: the queries as they were last activated, for processes that read a home from outside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.io.connectors.protocol import shown
from watersmeet.io.sinks import result_folder
from watersmeet.model import Query


@dataclass(frozen=True)
class Described:
    joins: str
    sql: str
    folder: str
    backfill: bool


def describe(home: Path, queries: Iterable[Query]) -> dict[str, Described]:
    return {
        query.name: Described(
            query.title,
            query.sql,
            _place(home, query),
            query.backfill,
        )
        for query in queries
    }


def _place(home: Path, query: Query) -> str:
    """Where the results of a query are found."""
    if query.sink.is_delivered:
        return shown(query.sink)
    if query.sink.format == "count":
        return str(home / layout.COUNTS)
    return str(result_folder(home, query.name, query.sink))


def write_description(home: Path, queries: Mapping[str, Described]) -> None:
    content = {name: asdict(one) for name, one in queries.items()}
    write_whole(home / layout.QUERIES, json.dumps(content, indent=1, ensure_ascii=False))


def read_description(home: Path) -> dict[str, Described]:
    """The queries of a home; empty where no engine has started on it."""
    path = home / layout.QUERIES
    if not path.exists():
        return {}
    try:
        return {name: Described(**parts) for name, parts in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError, AttributeError) as problem:
        raise StateError(
            f"{path} is damaged: {problem}",
            detail="It lists the queries for those who look at a home from outside.",
            hint="delete the file, and start the engine: it is written anew",
        ) from None
