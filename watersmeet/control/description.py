"""`queries.json` in the home: the queries as they were last activated, for processes that read a home from outside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.io.connectors.protocol import shown
from watersmeet.io.sinks import result_folder
from watersmeet.model import AnyQuery


@dataclass(frozen=True)
class Described:
    joins: str
    sql: str
    folder: str
    backfill: bool


def describe(home: Path, queries: Iterable[AnyQuery]) -> dict[str, Described]:
    return {
        query.name: Described(
            query.title,
            query.sql,
            shown(query.sink) if query.sink.is_delivered else str(result_folder(home, query.name, query.sink)),
            query.backfill,
        )
        for query in queries
    }


def write_description(home: Path, queries: Iterable[AnyQuery]) -> None:
    described = {name: asdict(one) for name, one in describe(home, queries).items()}
    write_whole(home / layout.QUERIES, json.dumps(described, indent=1, ensure_ascii=False))


def read_description(home: Path) -> dict[str, Described]:
    """Empty where no engine has started on the home."""
    path = home / layout.QUERIES
    if not path.exists():
        return {}
    return {name: Described(**parts) for name, parts in json.loads(path.read_text("utf-8")).items()}
