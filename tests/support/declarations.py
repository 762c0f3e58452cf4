"""Streams and queries from SQL, without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watersmeet.model import JoinForm, Query, Stream
from watersmeet.sql import CreateStream, build_query, parse_script


def streams_of(script: str) -> dict[str, Stream]:
    """The streams that a script declares, by name."""
    return {one.stream.name: one.stream for one in parse_script(script) if isinstance(one, CreateStream)}


def bigint_streams(columns: Mapping[str, Iterable[str]]) -> dict[str, Stream]:
    """Streams with an event time and columns that are numbers."""
    return streams_of(
        "".join(
            f"CREATE STREAM {name} (ts TIMESTAMP, {', '.join(f'{one} BIGINT' for one in names)}) TIMESTAMP BY ts "
            "FROM parquet 'nowhere';"
            for name, names in columns.items()
        )
    )


def continuous_query(*arguments: Any, **options: Any) -> Query:
    """As build_query, of a query that is not windowed."""
    built = build_query(*arguments, **options)
    assert not built.is_windowed, built
    return built


def join_form(*arguments: Any, **options: Any) -> JoinForm:
    """The join that a query is."""
    join = continuous_query(*arguments, **options).join
    assert join is not None
    return join


def numbered_queries(texts: Iterable[str], streams: Mapping[str, Stream]) -> list[Query]:
    """Queries q0, q1, …"""
    return [continuous_query(f"q{at}", text, streams) for at, text in enumerate(texts)]
