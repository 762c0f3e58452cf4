"""Random queries with LEFT, SEMI and ANTI joins, [NOT] EXISTS and [NOT] IN, with their batch queries for DuckDB.

A result without a partner is there as soon as no partner can come, so the batch query leaves out those whose deadline
the watermark of the leaf's stream has not passed by the end of the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.support.cases import (
    WINDOWS,
    Case,
    QueryCase,
    StreamCase,
    bracket,
    equalities,
    filters,
    stream_cases,
    thetas_between,
)

FORMS = ("left", "right", "semi", "anti", "exists", "not exists", "in", "not in")
TYPES = ("INT", "BIGINT", "STRING", "DECIMAL(30,4)", "DOUBLE")


@dataclass(frozen=True)
class LeafQuery(QueryCase):
    timed: str  # the batch query with the tick of each result, over rows with the tick in which they `arrived`
    flushed: str  # the batch query over such rows, if a flush follows the tick with the number {flush}


@dataclass(frozen=True)
class LeafJoin:
    """A join as it is written, of aliases a0, a1, … with the leaf b."""

    members: tuple[tuple[str, StreamCase], ...]
    inner: tuple[str, ...]  # predicates of the preserved side, one for each alias but the first
    leaf: StreamCase
    on: tuple[str, ...]

    @property
    def aliases(self) -> list[str]:
        return [alias for alias, _ in self.members]


@st.composite
def leaf_cases(
    draw: st.DrawFn, max_rows: int = 30, max_ticks: int = 6, most_aliases: int = 3, *, late: bool = False
) -> Case:
    """With `late`, some rows come later than their streams allow."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    ticks = draw(st.integers(1, max_ticks))
    streams = tuple(draw(stream_cases(f"s{at}", kinds, ticks, max_rows)) for at in range(draw(st.integers(1, 3))))
    if late:
        streams = tuple(replace(stream, lateness=stream.lateness // 4) for stream in streams)
    joins: list[LeafJoin] = []
    queries = []
    for number in range(draw(st.integers(1, 4))):
        again = bool(joins) and draw(st.booleans())
        joins.append(draw(st.sampled_from(joins)) if again else draw(_join(streams, most_aliases)))
        queries.append(draw(_query(f"q{number}", joins[-1])))
    restarts = frozenset(draw(st.lists(st.integers(0, ticks), max_size=2)))
    return Case(streams, tuple(queries), draw(st.sampled_from((1, 3))), restarts, draw(st.integers(1, 3)))


@st.composite
def _join(draw: st.DrawFn, streams: tuple[StreamCase, ...], most: int) -> LeafJoin:
    size = draw(st.sampled_from((1, 1, 2, 3)[: most + 1]))
    members = tuple((f"a{at}", draw(st.sampled_from(streams))) for at in range(size))
    leaf = draw(st.sampled_from(streams))
    inner = tuple(
        draw((thetas_between if draw(st.integers(0, 3)) == 0 else equalities)(members[at - 1], members[at]))
        for at in range(1, size)
    )
    joined = [draw(st.sampled_from(members)) for _ in range(draw(st.sampled_from((1, 1, 1, 2))))]
    on = tuple(
        draw((thetas_between if draw(st.integers(0, 2)) == 0 else equalities)(member, ("b", leaf))) for member in joined
    )
    return LeafJoin(members, inner, leaf, on)


@st.composite
def _query(draw: st.DrawFn, name: str, join: LeafJoin) -> LeafQuery:
    form = draw(st.sampled_from(FORMS))
    if form == "right" and len(join.members) > 1:
        form = "left"
    windows = [draw(st.sampled_from(WINDOWS)) for _ in join.members]
    if all(window is None for window in windows):
        windows[0] = draw(st.sampled_from(WINDOWS[:-1]))
    own = draw(st.sampled_from(WINDOWS))
    on = list(join.on)
    if draw(st.integers(0, 2)) == 0:
        on.append(draw(filters("b")))
    if draw(st.integers(0, 3)) == 0:
        on.append(draw(filters(draw(st.sampled_from(join.aliases)))))
    where = [draw(filters(draw(st.sampled_from(join.aliases))))] if draw(st.integers(0, 2)) == 0 else []
    outputs = [f"{alias}.id AS {alias}_id" for alias in join.aliases]
    if form in ("left", "right"):
        outputs.append("b.id AS b_id")
        if draw(st.booleans()):
            outputs.append(f"coalesce(b.v, -100) + a0.v AS computed, {draw(st.sampled_from(('b', 'a0')))}.k0 AS key")
        if draw(st.integers(0, 2)) == 0:
            where.append(
                draw(st.sampled_from(("b.id IS NULL", "b.v > 0", "(b.v > a0.v OR b.v IS NULL)", "b.id % 2 = 0")))
            )
    elif draw(st.booleans()):
        outputs.append("a0.k0 AS key, a0.ts AS at")
    same = ""
    if form in ("in", "not in"):
        same = f"a0.v {{}} (SELECT {draw(st.sampled_from(('b.v', 'b.v + 1')))}"
    asked = join, form, (windows, own), (on, where), ", ".join(outputs), same
    return LeafQuery(name, _text(*asked), _oracle(*asked), _oracle(*asked, timed=True), _oracle(*asked, flushed=True))


_Windows = tuple[list[int | None], int | None]
_Conditions = tuple[list[str], list[str]]


def _text(join: LeafJoin, form: str, windows: _Windows, conditions: _Conditions, outputs: str, same: str) -> str:
    on, where = conditions
    tables = [
        f"{stream.name} {bracket(window)} AS {alias}"
        for (alias, stream), window in zip(join.members, windows[0], strict=True)
    ]
    preserved = tables[0] + "".join(
        f" JOIN {table} ON {predicate}" for table, predicate in zip(tables[1:], join.inner, strict=True)
    )
    leaf, partner = f"{join.leaf.name} {bracket(windows[1])} AS b", " AND ".join(on)
    where = list(where)
    if form == "right":
        source = f"{leaf} RIGHT JOIN {preserved} ON {partner}"
    elif form in ("left", "semi", "anti"):
        source = f"{preserved} {form.upper()} JOIN {leaf} ON {partner}"
    else:
        source = preserved
        if same:
            where.append(f"{same.format(form.upper())} FROM {leaf} WHERE {partner})")
        else:
            where.append(f"{form.upper()} (SELECT 1 FROM {leaf} WHERE {partner})")
    return f"SELECT {outputs} FROM {source}" + (f" WHERE {' AND '.join(where)}" if where else "")


def _oracle(
    join: LeafJoin,
    form: str,
    windows: _Windows,
    conditions: _Conditions,
    outputs: str,
    same: str,
    *,
    timed: bool = False,
    flushed: bool = False,
) -> str:
    on, where = conditions
    leaf, tables = join.leaf.name, " CROSS JOIN ".join(f"{stream.name} AS {alias}" for alias, stream in join.members)
    times = [f"epoch_us({alias}.ts)" for alias in join.aliases]
    ends = [f"{time} + {window}" for time, window in zip(times, windows[0], strict=True) if window is not None]
    latest, deadline = f"greatest({', '.join(times)})", f"least({', '.join(ends)})"
    inside = [*join.inner, *where, f"{latest} <= {deadline}"]
    partner = [*on, f"epoch_us(b.ts) <= {deadline}"]
    if windows[1] is not None:
        partner.append(f"epoch_us(b.ts) + {windows[1]} >= {latest}")
    compared, found = same.removeprefix("a0.v {} (SELECT "), " AND ".join(partner)

    def exists(when: str = "true") -> str:
        if same:
            return f"a0.v IN (SELECT {compared} FROM {leaf} AS b WHERE {found} AND {when})"
        return f"EXISTS (SELECT 1 FROM {leaf} AS b WHERE {found} AND {when})"

    if same:
        partner.append(f"a0.v = {compared}")
    with_partner = " AND ".join([*inside, exists()])
    arrived = ", ".join(f"{alias}.arrived" for alias in join.aliases)

    def selected(then: str) -> str:
        return f"SELECT {outputs}, greatest({arrived}, {then}) AS tick" if timed else f"SELECT {outputs}"

    passed = f"epoch_us(ts) - {join.leaf.lateness} > {deadline}"
    decided = f"EXISTS (SELECT 1 FROM {leaf} WHERE {passed})"
    absence = f"(NOT {exists()} AND {decided})"
    if flushed:
        newest = "(SELECT max(epoch_us(ts)) FROM {} WHERE arrived <= {{flush}})"
        ended = " AND ".join(
            f"{time} <= {newest.format(stream.name)}" for time, (_, stream) in zip(times, join.members, strict=True)
        )
        by_then = exists(f"b.arrived <= greatest({arrived}, {{flush}})")
        absence = f"CASE WHEN {ended} THEN NOT {by_then} ELSE {absence} END"
    without = " AND ".join([*inside, absence])
    absent = selected(f"(SELECT min(arrived) FROM {leaf} WHERE {passed})")
    if form in ("semi", "exists", "in"):
        first = f"(SELECT min(b.arrived) FROM {leaf} AS b WHERE {' AND '.join(partner)})"
        return f"{selected(first)} FROM {tables} WHERE {with_partner}"
    if form in ("anti", "not exists", "not in"):
        return f"{absent} FROM {tables} WHERE {without}"
    joined = " AND ".join([*inside, *partner])
    return (
        f"{selected('b.arrived')} FROM {tables} CROSS JOIN {leaf} AS b WHERE {joined} UNION ALL "
        f"{absent} FROM {tables} LEFT JOIN {leaf} AS b ON false WHERE {without}"
    )
