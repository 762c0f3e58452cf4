"""Random schemas, data and queries, each as Watersmeet's SQL and as one batch query for DuckDB."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.parquet_input import EPOCH, ONE_FILE_A_TICK, TIMESTAMP

SECOND = 1_000_000
_DOMAIN = 4

# declared type -> the few values that keys of that type take, so that joins find partners
KEY_TYPES: dict[str, list[object]] = {
    "INT": [0, 1, -1, 2],
    "BIGINT": [0, 1, -1, 2**40],
    "STRING": ["", "a", "é", "a much longer value than eight bytes"],
    "DATE": [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(1969, 12, 31), dt.date(2000, 2, 29)],
    "TIMESTAMP": [EPOCH, EPOCH + dt.timedelta(days=1), dt.datetime(1969, 12, 31), dt.datetime(2000, 2, 29, 1, 2, 3)],
    "DECIMAL(10,2)": [decimal.Decimal(text) for text in ("0.00", "1.00", "-1.00", "12345678.90")],
    "DECIMAL(30,4)": [decimal.Decimal(text) for text in ("0.0000", "1.0000", "-1.0000", "12345678901234567890.1234")],
    "BOOLEAN": [True, False, True, False],
    "DOUBLE": [0.0, 1.0, -1.0, 1e300],
}
NUMERIC = ("INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(30,4)", "DOUBLE")
ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DECIMAL(30,4)": pa.decimal128(30, 4),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
}


@dataclass(frozen=True)
class StreamCase:
    name: str
    columns: tuple[tuple[str, str], ...]  # besides ts and id
    lateness: int
    rows: pa.Table  # in order of arrival
    cuts: tuple[int, ...]  # tick boundaries: positions in rows, ascending

    def reading(self, files: object) -> str:
        """The statement that declares it; every tick takes one file."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return (
            f"CREATE STREAM {self.name} (ts TIMESTAMP, id BIGINT, {columns}) TIMESTAMP BY ts "
            f"LATENESS INTERVAL '{self.lateness}' MICROSECONDS FROM parquet '{files}' {ONE_FILE_A_TICK};"
        )

    def piece(self, tick: int) -> pa.Table:
        bounds = (0, *self.cuts, self.rows.num_rows)
        return self.rows.slice(bounds[tick], bounds[tick + 1] - bounds[tick])


@dataclass(frozen=True)
class QueryCase:
    name: str
    sql: str
    oracle: str


@dataclass(frozen=True)
class Case:
    streams: tuple[StreamCase, ...]
    queries: tuple[QueryCase, ...]
    partitions: int
    restarts: frozenset[int]  # ticks after which the engine is stopped and started
    tasks: int

    @property
    def ticks(self) -> int:
        return len(self.streams[0].cuts) + 1

    def pieces(self, tick: int) -> dict[str, pa.Table]:
        """The rows of a tick, by stream."""
        return {stream.name: stream.piece(tick) for stream in self.streams}


@st.composite
def cases(
    draw: st.DrawFn,
    max_streams: int = 4,
    max_queries: int = 20,
    max_rows: int = 40,
    max_ticks: int = 8,
    thetas: tuple[int, ...] = (0, 4, 0, 2),
) -> Case:
    """`thetas` are the quarters of a join's predicates that are no equalities, one of which is chosen for each join."""
    kinds = draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3))
    ticks = draw(st.integers(1, max_ticks))
    streams = tuple(
        draw(stream_cases(f"s{number}", kinds, ticks, max_rows)) for number in range(draw(st.integers(1, max_streams)))
    )
    count = draw(st.one_of(st.integers(1, 3), st.integers(1, max_queries)))
    joins: list[Join] = []
    for _ in range(count):
        # Often the same join again: such queries share all steps and differ in windows, filters and outputs only.
        again = bool(joins) and draw(st.booleans())
        joins.append(draw(st.sampled_from(joins)) if again else draw(_join(streams, thetas)))
    queries = tuple(draw(_query(f"q{number}", join)) for number, join in enumerate(joins))
    restarts = frozenset(draw(st.lists(st.integers(0, ticks), max_size=3)))
    return Case(streams, queries, draw(st.sampled_from((1, 3))), restarts, draw(st.integers(1, 3)))


@st.composite
def stream_cases(draw: st.DrawFn, name: str, kinds: list[str], ticks: int, max_rows: int) -> StreamCase:
    columns = (*tuple((f"k{number}", kind) for number, kind in enumerate(kinds)), ("v", "INT"))
    count = draw(st.integers(0, max_rows))
    span = draw(st.sampled_from((1, 20, 200)))  # seconds of event time
    jitter = draw(st.sampled_from((0, 1, 5 * SECOND)))
    arrivals = []
    for number in range(count):
        tau = draw(st.integers(0, span * 10)) * SECOND // 10
        values = [draw(st.one_of(st.none(), st.integers(0, _DOMAIN - 1), st.integers(0, 1))) for _ in kinds]
        arrivals.append((tau + draw(st.integers(0, jitter)), tau, number, values, draw(st.integers(-3, 3))))
    arrivals.sort(key=lambda row: (row[0], row[2]))
    data: dict[str, pa.Array] = {
        "ts": pa.array([EPOCH + dt.timedelta(microseconds=row[1]) for row in arrivals], TIMESTAMP),
        "id": pa.array([row[2] for row in arrivals], pa.int64()),
    }
    for at, (column, kind) in enumerate(columns[:-1]):
        numbers = [row[3][at] for row in arrivals]
        chosen = [None if number is None else KEY_TYPES[kind][number] for number in numbers]
        data[column] = pa.array(chosen, ARROW[kind])
    data["v"] = pa.array([row[4] for row in arrivals], pa.int32())
    cuts = tuple(sorted(draw(st.integers(0, count)) for _ in range(ticks - 1)))
    return StreamCase(name, columns, jitter, pa.table(data), cuts)


WINDOWS = (0, 1, SECOND // 2, SECOND, 5 * SECOND, 30 * SECOND, None)


@dataclass(frozen=True)
class Join:
    members: tuple[tuple[str, StreamCase], ...]  # (alias, stream)
    predicates: tuple[str, ...]


@st.composite
def _join(draw: st.DrawFn, streams: tuple[StreamCase, ...], thetas: tuple[int, ...]) -> Join:
    share = draw(st.sampled_from(thetas))
    size = draw(st.sampled_from((2, 3, 3, 4, 5) if share else (1, 2, 2, 3, 3, 3, 4, 5, 6)))
    members = tuple((f"a{number}", draw(st.sampled_from(streams))) for number in range(size))
    shape = draw(st.sampled_from(("chain", "star", "cycle", "any")))
    pairs = []
    for number in range(1, size):
        partner = {"chain": number - 1, "cycle": number - 1, "star": 0}.get(shape)
        pairs.append((draw(st.integers(0, number - 1)) if partner is None else partner, number))
    if shape == "cycle" and size > 2:
        pairs.append((0, size - 1))
    if size > 1 and draw(st.booleans()):
        pairs.append(draw(st.sampled_from(pairs)))  # several predicates between two aliases
    return Join(
        members,
        tuple(
            draw((thetas_between if draw(st.integers(0, 3)) < share else equalities)(members[left], members[right]))
            for left, right in pairs
        ),
    )


@st.composite
def _query(draw: st.DrawFn, name: str, join: Join) -> QueryCase:
    members = join.members
    size = len(members)
    windows = [draw(st.sampled_from(WINDOWS)) for _ in members]
    if draw(st.booleans()):
        windows = [windows[0]] * size
    conditions = list(join.predicates)
    for alias, _ in members:
        if draw(st.integers(0, 3)) == 0:
            conditions.append(draw(filters(alias)))
    oracle_conditions = list(conditions)
    draw(st.randoms(use_true_random=False)).shuffle(conditions)
    outputs = [f"{alias}.id AS {alias}_id" for alias, _ in members]
    if draw(st.booleans()):
        outputs.append(f"{members[0][0]}.v * 2 + {members[-1][0]}.v AS computed")
    if draw(st.booleans()):
        outputs.append(f"{members[-1][0]}.k0 AS key, {members[0][0]}.ts AS at")
    selected = ", ".join(outputs)
    same = len(set(windows)) == 1 and draw(st.booleans())
    tables = ", ".join(
        f"{stream.name} {'' if same else bracket(window)} AS {alias}"
        for (alias, stream), window in zip(members, windows, strict=True)
    )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    suffix = f" WINDOW {bracket(windows[0])[1:-1].removeprefix('RANGE ')}" if same else ""
    return QueryCase(
        name,
        f"SELECT {selected} FROM {tables}{where}{suffix}",
        _oracle(selected, members, windows, oracle_conditions),
    )


def bracket(window: int | None) -> str:
    return "[UNBOUNDED]" if window is None else f"[RANGE {window} MICROSECONDS]"


def _oracle(
    selected: str, members: tuple[tuple[str, StreamCase], ...], windows: list[int | None], conditions: list[str]
) -> str:
    tables = ", ".join(f"{stream.name} AS {alias}" for alias, stream in members)
    newest = f"greatest({', '.join(f'epoch_us({alias}.ts)' for alias, _ in members)})"
    tests = [
        f"{newest} - epoch_us({alias}.ts) <= {window}"
        for (alias, _), window in zip(members, windows, strict=True)
        if window is not None
    ]
    return f"SELECT {selected} FROM {tables} WHERE {' AND '.join([*conditions, *tests, 'true'])}"


@st.composite
def equalities(draw: st.DrawFn, left: tuple[str, StreamCase], right: tuple[str, StreamCase]) -> str:
    left_column, kind = draw(st.sampled_from(left[1].columns[:-1]))
    comparable = [
        column
        for column, other in right[1].columns[:-1]
        if other == kind or {kind, other} <= set(NUMERIC) or {kind, other} <= {"DATE", "TIMESTAMP"}
    ]
    right_column = draw(st.sampled_from(comparable))
    text = f"{left[0]}.{left_column} = {right[0]}.{right_column}"
    if draw(st.integers(0, 9)) == 0:
        text = f"{left[0]}.v + 1 = {right[0]}.v"
    return text


@st.composite
def thetas_between(draw: st.DrawFn, left: tuple[str, StreamCase], right: tuple[str, StreamCase]) -> str:
    """A predicate that is no equality, in words that mean the same to Watersmeet and to DuckDB."""
    a, b = (left[0], right[0]) if draw(st.booleans()) else (right[0], left[0])
    number, seconds = draw(st.integers(-2, 4)), draw(st.integers(0, 5))
    operator = draw(st.sampled_from(("<", "<=", ">", ">=", "<>")))
    column, kind = draw(st.sampled_from(left[1].columns))
    texts = [
        f"{a}.v {operator} {b}.v",
        f"{a}.v + {number} {operator} {b}.v - 1",
        f"abs({a}.v - {b}.v) < {number}",
        f"abs({a}.v - {b}.id) <= {number}",
        f"{a}.v - {b}.v = {number}",
        f"{a}.id BETWEEN {b}.v AND {b}.id",
        f"{a}.v * {b}.v {operator} {a}.v + {number}",
        f"({a}.v {operator} {b}.v OR {a}.id = {b}.id)",
        f"NOT ({a}.v {operator} {b}.v AND {a}.id > {number})",
        f"({a}.k0 IS NULL OR {a}.v < {b}.v)",
        f"{a}.ts BETWEEN {b}.ts - INTERVAL '{seconds}' SECOND AND {b}.ts",
        f"{a}.ts - {b}.ts < INTERVAL '{seconds}' SECOND",
        f"{a}.ts {operator} {b}.ts",
        f"{a}.v * 0.5 {operator} {b}.v - 0.25",
        f"abs({a}.v / 2 - {b}.v) < 1.5",
        f"concat(CAST({a}.v AS STRING), 'x') {operator} concat(CAST({b}.v AS STRING), 'y')",
        f"CAST({a}.id AS STRING) LIKE concat('%', CAST({b}.id AS STRING), '%')",
        f"contains(CAST({a}.id AS STRING), CAST({b}.id AS STRING))",
    ]
    if kind != "BOOLEAN":
        same = [other for other, its in right[1].columns if its == kind or {kind, its} <= set(NUMERIC)]
        if same:
            texts.append(f"{left[0]}.{column} {operator} {right[0]}.{draw(st.sampled_from(same))}")
            texts.append(f"{left[0]}.{column} {operator} {right[0]}.{draw(st.sampled_from(same))}")
    return draw(st.sampled_from(texts))


@st.composite
def filters(draw: st.DrawFn, alias: str) -> str:
    number = draw(st.integers(-3, 3))
    return draw(
        st.sampled_from(
            (
                f"{alias}.v > {number}",
                f"{alias}.v BETWEEN {number} AND 2",
                f"{alias}.v IN ({number}, 0)",
                f"NOT ({alias}.v = {number} OR {alias}.k0 IS NULL)",
                f"CASE WHEN {alias}.v > 0 THEN {alias}.v ELSE -{alias}.v END >= {abs(number)}",
                f"{alias}.k0 IS NOT NULL",
                f"CAST({alias}.v AS STRING) LIKE '-%'",
            )
        )
    )
