"""Of which class a query is, with what partials, and why it is of no faster one."""

from __future__ import annotations

import pytest

from tests.sql.windowed.conftest import Build
from watersmeet.errors import SqlError
from watersmeet.model import Stream
from watersmeet.model.forms import FactorizedAggregates, JoinAggregates, SliceAggregates, TaskSql, WindowSql
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.sql import build_query
from watersmeet.sql.registration import register

MINUTE = 60_000_000
JOIN = "FROM bids {w} b JOIN auctions {w} a ON b.auction = a.id"
SLICED = [
    "SELECT count(*) AS n FROM bids {w}",
    "SELECT kind, n + 1 AS m, sum(price) + 1 AS s FROM bids {w} WHERE price > 3 GROUP BY kind, n + 1",
    "SELECT upper(kind) AS k, max(at) AS m FROM bids {w} GROUP BY 1 HAVING count(*) > 2 ORDER BY 2 LIMIT 5",
    "SELECT DISTINCT kind, price FROM bids {w}",
    "SELECT avg(amount) AS a, avg(n) AS b, avg(d) AS c, stddev(d) AS e, var_pop(amount) AS f FROM bids {w}",
    "SELECT count_if(ok) AS a, bool_and(ok) AS b, any(ok) AS c, count(*) FILTER (WHERE n > 3) AS e FROM bids {w}",
    "SELECT sum(CASE WHEN ok THEN n END) AS s, window_start FROM bids {w} GROUP BY window_start",
    "SELECT b.bidder, count(*) AS n FROM bids b GROUP BY b.bidder, window(b.at, '1 hour', '1 minute')",
    "SELECT min(DISTINCT n) AS n FROM bids {w}",
    "SELECT count(DISTINCT n) AS n, count(DISTINCT kind, price) FILTER (WHERE n > 1) AS m FROM bids {w}",
    "SELECT kind, sum(DISTINCT n) AS a, avg(DISTINCT amount) AS b, count(*) AS c FROM bids {w} GROUP BY kind",
    "SELECT kind, sum(amount) / count(*) AS p, sum(amount) / sum(share) AS q FROM bids {w} GROUP BY kind",
]
FACTORIZED = [
    f"SELECT count(*) AS n {JOIN}",
    f"SELECT a.category, sum(b.price) AS s, avg(b.amount) AS m, max(a.name) AS x {JOIN} WHERE a.name > 'b' GROUP BY 1",
    f"SELECT sum(b.amount * a.fee) AS s, count(b.n) FILTER (WHERE a.category = 1 AND b.price > 1) AS c {JOIN}",
    "SELECT p.city, count(*) AS n FROM bids {w} b, auctions {w} a, persons {w} p"
    " WHERE b.auction = a.id AND a.seller = p.id AND b.price > 3 GROUP BY p.city",
    "SELECT count(*) AS n FROM auctions {w} a, auctions {w} b, persons {w} p"
    " WHERE a.seller = b.seller AND b.seller = p.id AND p.id = a.seller",
    "SELECT count(*) AS n FROM auctions {w} a JOIN persons {w} p USING (id, name)",
    f"SELECT sum(b.amount * (1 - b.share) - a.fee * b.share + a.fee) AS s {JOIN}",
    f"SELECT sum(CASE WHEN a.category = 1 AND b.ok THEN b.amount * a.fee ELSE 0 END) / sum(b.amount) AS s {JOIN}",
]
BATCH = {
    "SELECT n FROM bids {w}": "it gives rows and not aggregates",
    "SELECT count(DISTINCT arr) AS n FROM bids {w}": "an argument of a nested type",
    f"SELECT count(DISTINCT b.n) AS n {JOIN}": "count(DISTINCT …) has no partial aggregates",
    "SELECT percentile(n, 0.5) AS p FROM bids {w}": "percentile of several arguments",
    "SELECT median(n) AS p FROM bids {w}": "median has no partial aggregates",
    "SELECT max(exp(d)) AS p FROM bids {w}": "a function that only Spark computes",
    "SELECT sum(amount / share) AS p FROM bids {w}": "a quotient of decimals",
    "SELECT sum(long) AS p FROM bids {w}": "may need more than 38 digits",
    "SELECT kind, rank() OVER (ORDER BY count(*)) AS r FROM bids {w} GROUP BY kind": "it has a function with OVER",
    "SELECT count(*) AS n FROM bids {w} WHERE at > window_start": "reads the ends of the window",
    "SELECT count(*) AS n FROM bids {w} WHERE n IN (SELECT id FROM auctions {w})": "it has a subquery",
    "SELECT kind, count(*) AS n FROM bids {w} GROUP BY kind HAVING count(*) > (SELECT max(id) FROM auctions {w})": (
        "it has a subquery"
    ),
    "SELECT count(*) AS n FROM (SELECT DISTINCT n FROM bids {w})": "it has a subquery in FROM",
    "SELECT n FROM bids {w} UNION ALL SELECT category FROM auctions {w}": "it has UNION ALL",
    "SELECT count(*) AS n FROM bids {w} b LEFT JOIN auctions {w} a ON b.auction = a.id": "it has a LEFT JOIN",
    "SELECT count(*) AS n FROM bids {w} b, auctions {w} a WHERE b.auction < a.id": "is no equality of two keys",
    "SELECT count(*) AS n FROM bids {w} b, auctions {w} a": "not all aliases are joined by equalities",
    f"SELECT b.n + a.category AS k, count(*) AS n {JOIN} GROUP BY 1": "a key of GROUP BY reads b and a",
    f"SELECT sum(b.n * a.category) AS n {JOIN}": "an argument of sum reads several aliases",
    f"SELECT max(b.amount * a.fee) AS n {JOIN}": "an argument of max reads b and a",
    f"SELECT sum(b.n - a.category) AS n {JOIN}": "an argument of sum reads several aliases",
    f"SELECT sum(CASE WHEN a.category = 1 THEN b.n ELSE 1 END) AS n {JOIN}": "other branches than 0",
    f"SELECT sum(CASE WHEN a.category = b.n THEN b.n ELSE 0 END) AS n {JOIN}": "FILTER or CASE reads a and b",
    f"SELECT sum(greatest(b.n, a.id)) AS n {JOIN}": "an argument of sum reads b and a",
    f"SELECT stddev(b.n) AS n {JOIN}": "stddev is not pushed below a join",
    "SELECT count(*) AS n FROM bids {w} b, auctions {w} a, persons {w} p"
    " WHERE b.auction = a.id AND a.seller = p.id AND p.name = b.kind": "the join is cyclic",
    "SELECT count(*) AS n FROM bids {w} b, auctions {w} a WHERE b.d = a.id": "keys of different types",
}


@pytest.mark.parametrize("sql", SLICED)
def test_slices(sql: str, query: Build) -> None:
    built = query(sql)
    assert isinstance(built.form, SliceAggregates)
    assert (built.form.kind, built.reason, built.grid) == ("slices", "", SlidingWindow(60 * MINUTE, MINUTE))
    assert built.streams == ("bids",)


@pytest.mark.parametrize("sql", FACTORIZED)
def test_factorized(sql: str, query: Build) -> None:
    built = query(sql)
    assert isinstance(built.form, FactorizedAggregates), built.reason
    assert [member.parent is None for member in built.form.members].count(True) == 1
    for at, member in enumerate(built.form.members):
        assert member.parent is None or member.parent < at
        assert len(member.join) == len(member.parent_join)
        assert bool(member.join) == (member.parent is not None)


@pytest.mark.parametrize("sql", BATCH)
def test_batch(sql: str, query: Build) -> None:
    built = query(sql)
    assert isinstance(built.forms[-1], WindowSql)
    assert BATCH[sql] in built.reason
    in_a_task = len(built.forms) == 2
    assert isinstance(built.form, TaskSql) == in_a_task
    beginning = "Each window is computed" if in_a_task else "Spark computes each window"
    assert built.reason.startswith(f"{beginning} from its rows, because")


def test_a_registered_predicate_is_rejected(streams: dict[str, Stream]) -> None:
    function = register("alike", lambda left, right: left == right, True, 1.0)
    text = "SELECT count(*) AS n FROM bids [TUMBLE 1 DAY] WHERE alike(kind, kind)"
    with pytest.raises(SqlError, match="alike cannot be called in a windowed query"):
        build_query("q", text, streams, functions={"alike": function})


def test_equal_partials_are_stored_once(query: Build) -> None:
    body = query("SELECT sum(n) AS s, avg(n) AS a, count(n) AS c, sum(n) / count(n) AS q FROM bids {w}").form
    assert isinstance(body, SliceAggregates)
    assert [(partial.function, partial.type) for partial in body.partials] == [
        ("sum", "decimal(38,0)"),
        ("count", "bigint"),
    ]


def test_a_group_by_without_keys_gives_nothing_where_no_row_passes(query: Build) -> None:
    grouped = query("SELECT max(n) AS m FROM bids {w} WHERE n > 3 GROUP BY window_start").form
    everything = query("SELECT max(n) AS m FROM bids {w} WHERE n > 3").form
    assert isinstance(grouped, SliceAggregates)
    assert isinstance(everything, SliceAggregates)
    assert str(grouped.final.having) == '"p0" > CAST(0 AS BIGINT)'
    assert everything.final.having is None


def test_a_limit_is_decided_by_all_outputs(query: Build) -> None:
    body = query("SELECT kind, count(*) AS n FROM bids {w} GROUP BY kind ORDER BY n DESC LIMIT 3").form
    assert isinstance(body, SliceAggregates)
    assert [(str(each.expression), each.descending) for each in body.final.order] == [('"p0"', True), ('"k0"', False)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM bids [RANGE 1 HOUR SLIDE 1 MINUTE]",
        "SELECT count(*) AS n FROM bids [RANGE INTERVAL '1' HOUR SLIDE 60 SECONDS] AS b",
        "SELECT count(*) AS n FROM bids AS b [RANGE 1 HOUR SLIDE 1 MINUTE]",
        "SELECT count(*) AS n FROM bids WINDOW 1 HOUR SLIDE 1 MINUTE",
        "SELECT count(*) AS n FROM bids WINDOW RANGE 1 HOUR SLIDE 1 MINUTE",
        "SELECT count(*) AS n FROM bids GROUP BY window(at, '1 hour', '1 minute')",
        "SELECT count(*) AS n FROM bids [RANGE 1 HOUR SLIDE 1 MINUTE] b GROUP BY window(b.at, '1 hour', '1 minute')",
    ],
)
def test_ways_to_write_a_grid(sql: str, query: Build) -> None:
    assert query(sql).grid == SlidingWindow(60 * MINUTE, MINUTE)


@pytest.mark.parametrize(
    "sql",
    ["FROM bids [TUMBLE 1 MINUTE]", "FROM bids WINDOW TUMBLE 1 MINUTE", "FROM bids GROUP BY window(at, '1 minute')"],
)
def test_tumbling_windows(sql: str, query: Build) -> None:
    assert query(f"SELECT count(*) AS n {sql}").grid == SlidingWindow(MINUTE, MINUTE)


def test_aggregates_over_a_continuous_join(query: Build) -> None:
    built = query(
        "SELECT a.category, max(b.price + 1) AS p, window_end FROM bids [RANGE 10 SECONDS] b, auctions [UNBOUNDED] a"
        " WHERE b.auction = a.id AND b.price > 5 GROUP BY a.category, window(result_time(), '1 minute')"
    )
    assert isinstance(built.form, JoinAggregates)
    inner = built.form.join
    assert [(alias.name, alias.window) for alias in inner.aliases] == [("b", 10_000_000), ("a", None)]
    assert [output.name for output in inner.outputs] == ["a.category", "b.price"]
    assert [str(key) for key in built.form.keys] == ['"a.category"']
    assert str(built.form.partials[0].argument) == '"b.price" + 1'
    assert (built.grid, built.streams) == (SlidingWindow(MINUTE, MINUTE), ("bids", "auctions"))
    assert "continuous join" in built.reason


def test_aggregates_over_a_join_that_is_written_with_a_subquery(query: Build) -> None:
    by = "GROUP BY t.category, window(result_time(), '1 minute')"
    one = query(
        "SELECT t.category, sum(t.twice + 1) AS s FROM (SELECT a.category, b.price * 2 AS twice FROM bids"
        f" [RANGE 1 SECOND] b JOIN auctions [UNBOUNDED] a ON b.auction = a.id WHERE b.n > 1) t {by}"
    )
    other = query(
        "SELECT t.category, sum(b.price * 2 + 1) AS s FROM bids [RANGE 1 SECOND] b JOIN auctions [UNBOUNDED] t"
        f" ON b.auction = t.id WHERE b.n > 1 {by}"
    )
    assert isinstance(one.form, JoinAggregates) and isinstance(other.form, JoinAggregates)
    assert [str(each.argument) for each in one.form.partials] == [str(each.argument) for each in other.form.partials]
    assert [alias.filter for alias in one.form.join.aliases] == [alias.filter for alias in other.form.join.aliases]


def test_the_name_of_an_output_stands_for_its_whole_value(query: Build) -> None:
    one = query("SELECT sum(n) + 1 AS y, y * 2 AS z, sum(n - 1) AS s FROM bids {w} HAVING y * 2 > s")
    other = query(
        "SELECT sum(n) + 1 AS y, (sum(n) + 1) * 2 AS z, sum(n - 1) AS s FROM bids {w}"
        " HAVING (sum(n) + 1) * 2 > sum(n - 1)"
    )
    assert one.form == other.form
