"""What the text of a query is read against: streams, registered predicates, limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from watersmeet.errors import Place
from watersmeet.model import Query, Registered, Sink, Stream
from watersmeet.sql import CreateQuery, build_query


@dataclass(frozen=True)
class Catalog:
    streams: Mapping[str, Stream]
    predicates: Mapping[str, Registered]
    max_aliases: int

    def query(
        self, name: str, sql: str, sink: Sink | None, backfill: bool = False, origin: Place | None = None
    ) -> Query:
        return build_query(
            name,
            sql,
            self.streams,
            sink,
            origin=origin,
            backfill=backfill,
            max_aliases=self.max_aliases,
            functions=self.predicates,
        )

    def created_by(self, statement: CreateQuery, folder: str) -> Query:
        """The query of a statement; a relative path in it is seen from a folder."""
        path = statement.sink.path
        sink = replace(statement.sink, path=path and path_in(folder, path))
        return self.query(statement.name, statement.select, sink, statement.backfill, statement.origin)


def path_in(folder: str, path: str) -> str:
    """A relative path as seen from a folder, if one is named; an absolute one or an address stays as it is."""
    if not folder or not path or "://" in path:
        return path
    return os.path.normpath(os.path.join(folder, path))


def folder_of(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) if file else ""
