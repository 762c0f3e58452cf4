"""What a body with partial aggregates gives for one window, computed by DuckDB straight from the model.

It is slow and simple: partials of all rows at once, and the whole join. Whatever computes slices has to give the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from watersmeet.model import Query
from watersmeet.model.expression import Expression
from watersmeet.model.forms import FactorizedAggregates, JoinPartial, Member, PartialAggregate, SliceAggregates
from watersmeet.private_duckdb import connect
from watersmeet.sql.spark_types import is_decimal, shape


def answers(query: Query, rows: Mapping[str, pa.Table], start: int) -> list[tuple[Any, ...]]:
    """The results for the window that begins at `start`; `rows` are those of the window, by stream."""
    connection: Any = connect()
    for name, table in rows.items():
        connection.register(name, table)
    assert isinstance(query.form, SliceAggregates | FactorizedAggregates)
    combined = _sliced(query.form) if isinstance(query.form, SliceAggregates) else _factorized(query.form)
    ends = ", ".join(
        f"make_timestamp({time}) AS {name}"
        for name, time in (("window_start", start), ("window_end", query.grid.end(start)))
    )
    final = query.form.final
    outputs = ", ".join(f'TRY({output.expression.text}) AS "{output.name}"' for output in query.outputs)
    text = f"SELECT {'DISTINCT ' if final.distinct else ''}{outputs} FROM (SELECT *, {ends} FROM ({combined}))"
    if final.having is not None:
        text += f" WHERE {final.having.text}"
    if final.order:
        parts = [
            f"{each.expression.text} {('ASC', 'DESC')[each.descending]} NULLS {('LAST', 'FIRST')[each.nulls_first]}"
            for each in final.order
        ]
        text += f" ORDER BY {', '.join(parts)}"
    if final.limit is not None:
        text += f" LIMIT {final.limit} OFFSET {final.offset}"
    return list(connection.execute(text).fetchall())


def _grouped(selected: list[str], source: str, keys: list[str]) -> str:
    text = f"SELECT {', '.join(selected) or '1 AS nothing'} FROM {source}"
    return f"{text} GROUP BY {', '.join(keys)}" if keys else text


def _sliced(body: SliceAggregates) -> str:
    keys = [f"TRY({key.text}) AS k{at}" for at, key in enumerate(body.keys)]
    where = f" WHERE TRY({body.filter.text})" if body.filter is not None else ""
    inner = ", ".join(["*", *keys])
    partials = [part for at, partial in enumerate(body.partials) for part in _partial(at, partial)]
    names = [f"k{at}" for at in range(len(keys))]
    return _grouped([*names, *partials], f"(SELECT {inner} FROM {body.stream}{where})", names)


def _partial(at: int, partial: PartialAggregate) -> list[str]:
    chosen = f" FILTER (WHERE TRY({partial.filter.text}))" if partial.filter is not None else ""
    value = f"TRY({partial.argument.text})" if partial.argument is not None else "*"
    if partial.distinct:
        values = [f"TRY({each.text})" for each in partial.distinct]
        known = " AND ".join(f"{each} IS NOT NULL" for each in values)
        whole = f"CASE WHEN {known} THEN row({', '.join(values)}) END"
        value = f"DISTINCT {whole if partial.argument is None else value}"
    if partial.function == "moments":
        return [
            f"CAST(count({value}){chosen} AS DOUBLE) AS p{at}_n",
            f"coalesce(avg({value}){chosen}, 0) AS p{at}_mean",
            f"coalesce(var_pop({value}){chosen} * count({value}){chosen}, 0) AS p{at}_m2",
        ]
    return [f"CAST({partial.function}({value}){chosen} AS {_type(partial.type)}) AS p{at}"]


def _type(declared: str) -> str:
    return {"string": "TEXT", "double": "DOUBLE"}.get(declared, declared)


def _factorized(body: FactorizedAggregates) -> str:
    members = [_member(body, at, member) for at, member in enumerate(body.members)]
    source = members[0]
    for at, member in enumerate(body.members[1:], 1):
        pairs = [f"m{at}_j{n} = m{member.parent}_c{at}_j{n}" for n in range(len(member.join))]
        source += f" JOIN {members[at]} ON {' AND '.join(pairs)}"
    keys = [f"k{at}" for at in range(len(body.key_types))]
    partials = [_join_partial(at, partial) for at, partial in enumerate(body.partials)]
    return _grouped([*keys, *partials], source, keys)


def _member(body: FactorizedAggregates, at: int, member: Member) -> str:
    parts = [f"{part.expression.text} AS m{at}_j{n}" for n, part in enumerate(member.join)]
    for child, other in enumerate(body.members):
        if other.parent == at:
            parts += [f"{part.expression.text} AS m{at}_c{child}_j{n}" for n, part in enumerate(other.parent_join)]
    parts += [f"TRY({key.text}) AS k{number}" for number, key in member.keys]
    for number, partial in enumerate(body.partials):
        for what, listed in (("a", partial.arguments), ("f", partial.filters)):
            parts += [f"TRY({each.text}) AS {what}{number}_{place}" for place, each in listed if place == at]
    where = f" WHERE TRY({member.filter.text})" if member.filter is not None else ""
    return f"(SELECT {', '.join(parts) or '1 AS nothing'} FROM {member.stream}{where}) AS m{at}"


def _join_partial(at: int, partial: JoinPartial) -> str:
    arguments = [_factor(f"a{at}_{place}", each) for place, each in partial.arguments]
    value = " * ".join(arguments) if partial.function != "count" else arguments[0] if arguments else "*"
    conditions = [f"f{at}_{place}" for place, _ in partial.filters]
    chosen = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    return f"CAST({partial.function}({value}){chosen} AS {_type(partial.type)}) AS p{at}"


def _factor(column: str, value: Expression) -> str:
    """Wide enough that DuckDB does not keep to 64 bits, and overflow."""
    if not is_decimal(value.type):
        return column
    digits, scale = shape(value.type)
    return f"CAST({column} AS DECIMAL({max(digits, 19)}, {scale}))"
