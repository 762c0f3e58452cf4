"""Windowed joins that give rows: what is kept of the results of their joins gives, for each window, DuckDB's join."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.windowed.queries import declaration, rows
from tests.oracle.windowed.test_slices import POINTS, randoms
from tests.support.declarations import streams_of
from tests.support.examples import examples
from tests.support.windowed import SECOND, Asked, WindowedRun
from watersmeet.model.forms import PairRows, TaskSql, WindowSql
from watersmeet.runtime.emit.assemble import Assembly
from watersmeet.runtime.emit.query_results import QueryResults
from watersmeet.sql import build_query
from watersmeet.windows.pairs import task

GRIDS = ((10, 10), (10, 5), (9, 3), (7, 2), (12, 5))
OUTPUTS = {"r": ("s", "v", "d * 2", "upper(s)", "v + k", "ts"), "t": ("w", "k", "w + 1", "ts")}
FILTERS = {"r": ("v > 0", "s = 'a' OR d < 1.5", "v + k > 2"), "t": ("w > 0", "w IS NULL")}
THETAS = ("{}.k < {}.k", "{}.k + 1 >= {}.k", "{}.ts <= {}.ts")


def named(alias: str, expression: str) -> str:
    words = expression.split(" ")
    return " ".join(word if word.isupper() or not word[0].isalpha() else _column(alias, word) for word in words)


def _column(alias: str, word: str) -> str:
    return f"upper({alias}.s)" if word == "upper(s)" else f"{alias}.{word}"


class RandomJoin:
    """A join of two to four aliases of two streams, for windows and as a continuous one with windows as long."""

    def __init__(self, random: Random) -> None:
        self.length, self.slide = random.choice(GRIDS)
        self.aliases = [(f"a{at}", random.choice("rt")) for at in range(random.choice([2, 2, 2, 3, 4]))]
        self.joins: list[tuple[str, str]] = []  # how each alias but the first is joined
        for at, (alias, _) in enumerate(self.aliases[1:], 1):
            other, _ = random.choice(self.aliases[:at])
            condition = f"{other}.k = {alias}.k"
            theta = random.choice(THETAS).format(other, alias)
            kind = random.choice(["equal", "equal", "both", "theta"]) if len(self.aliases) == 2 else "equal"
            self.joins.append(("JOIN", {"equal": condition, "both": f"{condition} AND {theta}", "theta": theta}[kind]))
        filtered = [each for each in self.aliases if random.random() < (0.3 if len(self.aliases) == 2 else 0.7)]
        self.filters = [f"({named(alias, random.choice(FILTERS[stream]))})" for alias, stream in filtered]
        self.outputs = [named(alias, random.choice(OUTPUTS[stream])) for alias, stream in self.aliases]

    def source(self, bracket: str, prefix: str = "") -> str:
        (first, stream), *others = self.aliases
        text = f"FROM {prefix}{stream}{bracket} {first}"
        for (alias, name), (word, condition) in zip(others, self.joins, strict=True):
            text += f" {word} {prefix}{name}{bracket} {alias} ON {condition}"
        return text + (f" WHERE {' AND '.join(self.filters)}" if self.filters else "")

    def windowed(self, random: Random) -> Asked:
        listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(self.outputs))
        both = ("window_start, window_end AS e, ", "{start}, {end}, ")
        ends = random.choice([("", ""), ("window_start, ", "{start}, "), both])
        if random.random() < 0.2:
            ends = ("unix_timestamp(window_start) + a0.k AS u, ", f"{{first}} // {SECOND} + a0.k, ")
        window = f" [RANGE {self.length} SECONDS SLIDE {self.slide} SECONDS]"
        order = random.choice(["", "", " ORDER BY c0"])
        return Asked(
            f"SELECT {ends[0]}{listed} {self.source(window)}{order}", f"SELECT {ends[1]}{listed} {self.source('')}"
        )

    def continuous(self) -> Asked:
        listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(self.outputs))
        times = ", ".join(f"epoch_us({alias}.ts)" for alias, _ in self.aliases)
        near = f"greatest({times}) - least({times}) <= {self.length * SECOND}"
        word = "AND" if self.filters else "WHERE"
        return Asked(
            f"SELECT {listed} {self.source(f' [RANGE {self.length} SECONDS]')}",
            f"SELECT {listed} {self.source('', 'all_')} {word} {near}",
        )


@settings(max_examples=examples(25))
@given(randoms, st.sampled_from([1, 3]))
def test_random_joins_with_restarts_and_deaths(random: Random, partitions: int) -> None:
    """Beside a continuous query over the same join, and other windows over it; queries come and go."""
    with tempfile.TemporaryDirectory() as folder:
        run = WindowedRun(Path(folder) / "home", declaration(4), partitions)
        joins = [RandomJoin(random) for _ in range(random.randint(1, 2))]
        for at, join in enumerate(joins):
            run.add(f"q{at}", join.windowed(random), kind=PairRows.kind)
            if random.random() < 0.5:
                run.add_continuous(f"c{at}", join.continuous())
            if random.random() < 0.4:
                run.add(f"again{at}", join.windowed(random), kind=PairRows.kind)
        now, many = 0, 3 if all(len(join.aliases) == 2 for join in joins) else 1
        for number in range(random.randint(3, 7)):
            now += random.choice([0, 2, 6, 30])
            killed = random.choice(POINTS) if random.random() < 0.2 else ""
            later = random.choice([0, 0, 8])
            pieces = [(rows(random, "r", now, 5), rows(random, "t", now + later, 5)) for _ in range(many)]
            run.tick(dict(zip("rt", map(pa.concat_tables, zip(*pieces, strict=True)), strict=True)), killed)
            if number == 2:
                run.add("later", random.choice(joins).windowed(random), addition="x", kind=PairRows.kind)
                if random.random() < 0.3:
                    run.drop("q0")
            if random.random() < 0.2:
                run.partitions = random.randint(1, 4)
                run.restart()
        run.flush()
        run.check()


JOIN = "FROM r [TUMBLE 10 SECONDS] x JOIN t [TUMBLE 10 SECONDS] y ON x.k = y.k"


def test_what_gives_rows_and_what_does_not() -> None:
    streams = streams_of(declaration(0))
    fits = [
        f"SELECT x.v, y.w {JOIN}",
        f"SELECT * {JOIN} ORDER BY x.v",
        f"SELECT window_start {JOIN}",
        "SELECT x.v FROM r [TUMBLE 1 MINUTE] x CROSS JOIN t [TUMBLE 1 MINUTE] y WHERE x.k < y.k",
        "SELECT x.v FROM r [TUMBLE 1 MINUTE] x, r [TUMBLE 1 MINUTE] y WHERE x.k = y.k AND x.v < y.v",
    ]
    for text in fits:
        kinds = [form.kind for form in build_query("q", text, streams).forms]
        assert kinds == [PairRows.kind, TaskSql.kind, WindowSql.kind], text
    for text in (
        f"SELECT DISTINCT x.v, y.w {JOIN} LIMIT 3",
        f"SELECT x.v {JOIN} LIMIT 3",
        f"SELECT x.v {JOIN} WHERE x.ts > window_start",
        f"SELECT exp(x.d) AS e {JOIN}",
        f"SELECT x.v {JOIN} WHERE x.v IN (SELECT w FROM t [TUMBLE 10 SECONDS])",
        JOIN.replace("FROM", "SELECT x.v FROM").replace("JOIN", "LEFT JOIN"),
        JOIN.replace("FROM", "SELECT x.v FROM").replace("JOIN", "FULL JOIN"),
    ):
        assert PairRows.kind not in [form.kind for form in build_query("q", text, streams).forms], text


def asked(window: str = "[TUMBLE 10 SECONDS]", listed: str = "x.v, y.w") -> Asked:
    return Asked(f"SELECT {listed} {JOIN.replace('[TUMBLE 10 SECONDS]', window)}", f"SELECT {listed} {PLAIN}")


PLAIN = JOIN.replace(" [TUMBLE 10 SECONDS]", "")
CONTINUOUS = JOIN.replace("TUMBLE", "RANGE")


def some_rows(run: WindowedRun, random: Random, at: int) -> None:
    pieces = [(rows(random, "r", at, 5), rows(random, "t", at, 5)) for _ in range(4)]
    run.tick(dict(zip("rt", map(pa.concat_tables, zip(*pieces, strict=True)), strict=True)))


def test_rows_of_queries_that_are_alike_are_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under other names, as results of a continuous query and of windows; a query with a filter has its own."""
    run = WindowedRun(tmp_path / "home", declaration(0))
    run.add("tumbling", asked(), kind=PairRows.kind)
    run.add("sliding", asked("[RANGE 10 SECONDS SLIDE 5 SECONDS]", "x.v AS a, y.w AS b"), kind=PairRows.kind)
    near = f"abs(epoch_us(x.ts) - epoch_us(y.ts)) <= {10 * SECOND}"
    of_all = PLAIN.replace("r x", "all_r x").replace("t y", "all_t y")
    run.add_continuous("continuous", Asked(f"SELECT x.v, y.w {CONTINUOUS}", f"SELECT x.v, y.w {of_all} WHERE {near}"))
    filtered = "SELECT x.v, y.w {} WHERE x.v > 0"
    run.add("filtered", Asked(filtered.format(JOIN), filtered.format(PLAIN)), kind=PairRows.kind)
    together = set()
    real = QueryResults.put_together

    def put_together(self: QueryResults, queries: tuple[str, ...], found: Assembly) -> pa.Table:
        together.add(frozenset(queries))
        return real(self, queries, found)

    monkeypatch.setattr(QueryResults, "put_together", put_together)
    random = Random(1)
    for number in range(4):
        some_rows(run, random, 7 * number)
    run.flush()
    run.check()
    assert together == {frozenset({"tumbling", "sliding", "continuous"}), frozenset({"filtered"})}


def test_windows_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "PIECE_ROWS", 3)
    run = WindowedRun(tmp_path / "home", declaration(0))
    run.add("q", asked("[RANGE 20 SECONDS SLIDE 1 SECOND]"), kind=PairRows.kind)
    random = Random(2)
    for number in range(3):
        some_rows(run, random, 7 * number)
    run.flush()
    run.check()
    assert run.found("q", run.lives["q"].query).total() > 100


def test_a_query_with_too_many_results_is_suspended_alone(tmp_path: Path) -> None:
    """Results of its join in a tick, or what its windows have, are limited; others of the same join are answered."""
    for setting, reason in ({"max_matches": 60}, "option max_matches"), ({"max_result_bytes": 900}, "max_result_bytes"):
        run = WindowedRun(tmp_path / next(iter(setting)), declaration(0), settings=setting)
        run.add("wide", asked("[RANGE 20 SECONDS SLIDE 1 SECOND]"), kind=PairRows.kind)
        few = "x.v = 2 AND y.w = 5 AND x.d = 2.0"
        run.add(
            "narrow", Asked(f"SELECT x.v {JOIN} WHERE {few}", f"SELECT x.v {PLAIN} WHERE {few}"), kind=PairRows.kind
        )
        random = Random(3)
        for number in range(4):
            some_rows(run, random, 7 * number)
        run.flush()
        assert list(run.manifest.suspended) == ["wide"] and reason in run.manifest.suspended["wide"].reason
        assert run.found("narrow", run.lives["narrow"].query) == run._expected(run.lives["narrow"])


def test_what_is_kept_goes_with_its_windows(tmp_path: Path) -> None:
    """Results that are in no window are not kept, and nothing is of windows that are closed or of a query that left."""
    run = WindowedRun(tmp_path / "home", declaration(0))
    run.add("q", asked(), kind=PairRows.kind)
    random = Random(4)
    for number in range(6):
        some_rows(run, random, 7 * number)
        opened = run.manifest.windows["q"]
        kept = [bucket for bucket in run.manifest.buckets if bucket.store.startswith("pairs q")]
        assert all(bucket.alive_until >= opened for bucket in kept)
        assert all(
            bucket.tau_max // (10 * SECOND) == bucket.alive_until // (10 * SECOND) for bucket in kept if number == 0
        )
    assert kept
    run.drop("q")
    some_rows(run, random, 50)
    assert not [bucket for bucket in run.manifest.buckets if bucket.store.startswith("pairs")]
