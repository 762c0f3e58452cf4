"""Queries of a workload as SQL."""

from __future__ import annotations

from bench.workloads.model import Query, Table, Workload


def named(column: str) -> str:
    return f"{column} AS {column.replace('.', '_')}"


def watersmeet_script(
    workload: Workload, queries: tuple[Query, ...], *, theta: bool = False, sink: str = "", files_a_tick: int = 1
) -> str:
    """With `theta` every equality is written so that no index serves it: each pair of rows has to be tested."""
    used = {table.stream for query in queries for table in query.tables}
    parts = []
    for stream in workload.streams:
        if stream.name in used:
            columns = ", ".join(f"{name} {kind.upper()}" for name, kind in stream.columns.items())
            parts.append(
                f"CREATE STREAM {stream.name} ({columns}) TIMESTAMP BY ts "
                f"FROM parquet '{workload.folder}/{stream.name}' WITH (maxFilesPerTrigger = {files_a_tick});\n"
            )
    for query in queries:
        tables = ", ".join(f"{table.stream} [{_window(table)}] {table.alias}" for table in query.tables)
        form = "NOT ({0} < {1} OR {0} > {1})" if theta else "{} = {}"
        conditions = [*(form.format(left, right) for left, right in query.equalities), *query.filters]
        into = f"INTO {sink} " if sink else ""
        parts.append(
            f"CREATE QUERY {query.name} {into}AS SELECT {', '.join(map(named, query.columns))} FROM {tables} "
            f"WHERE {' AND '.join(conditions)};\n"
        )
    return "".join(parts)


def _window(table: Table) -> str:
    return "UNBOUNDED" if table.seconds is None else f"RANGE {table.seconds} SECONDS"


def duckdb_count(query: Query) -> str:
    return f"SELECT count(*) {_duckdb_body(query)}"


def duckdb_count_up_to(query: Query, most: int) -> str:
    """DuckDB stops as soon as there are so many results."""
    return f"SELECT count(*) FROM (SELECT 1 {_duckdb_body(query)} LIMIT {most})"


def _duckdb_body(query: Query) -> str:
    tables = ", ".join(f"{table.stream} AS {table.alias}" for table in query.tables)
    return f"FROM {tables} {duckdb_conditions(query)}"


def duckdb_conditions(query: Query) -> str:
    conditions = [*(f"{left} = {right}" for left, right in query.equalities), *query.filters]
    return f"WHERE {' AND '.join((*conditions, *query.near('epoch_us({}.ts)')))}"


def flink_columns(kinds: dict[str, str]) -> str:
    """In the CSV files an event time is a number of microseconds."""
    types = {"timestamp": "BIGINT", "int": "INT", "bigint": "BIGINT", "string": "STRING"}
    return ", ".join(f"`{name}` {types[kind]}" for name, kind in kinds.items())


def flink_select(query: Query, interval_joins: bool) -> str:
    """Chained joins. Flink's times have milliseconds: an interval a bit too wide, then the exact test."""
    interval_joins = interval_joins and query.windowed
    suffix = "_timed" if interval_joins else ""
    first = query.tables[0]
    text = f"`{first.stream}{suffix}` AS {first.alias}"
    near = query.near("{}.ts")
    known = [first.alias]
    for table, pairs in query.joins():
        known.append(table.alias)
        conditions = [f"{left} = {right}" for left, right in pairs]
        if interval_joins:
            conditions.append(
                f"{table.alias}.rt BETWEEN {first.alias}.rt - INTERVAL '{table.seconds}.001' SECOND "
                f"AND {first.alias}.rt + INTERVAL '{first.seconds}.001' SECOND"
            )
        mine = [part for part in near if f"{table.alias}.ts" in part]
        conditions += [part for part in mine if all(part.count(f"{alias}.ts") == 0 for alias in _others(query, known))]
        text += f" JOIN `{table.stream}{suffix}` AS {table.alias} ON {' AND '.join(conditions)}"
    where = f" WHERE {' AND '.join(query.filters)}" if query.filters else ""
    return f"SELECT {', '.join(map(named, query.columns))} FROM {text}{where}"


def _others(query: Query, known: list[str]) -> list[str]:
    return [table.alias for table in query.tables if table.alias not in known]
