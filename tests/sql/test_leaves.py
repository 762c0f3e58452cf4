"""LEFT, RIGHT, SEMI and ANTI joins and subqueries: what they mean as a Query, and what is rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watersmeet.errors import SqlError
from watersmeet.model import JoinForm

Build = Callable[[str], JoinForm]
W = "[RANGE 1 DAY]"

SAME = [
    (f"SELECT a.k FROM wide {W} a ANTI JOIN wide {W} b ON a.k = b.k AND b.x > 1", "anti"),
    (f"SELECT a.k FROM wide {W} a LEFT ANTI JOIN wide {W} b ON a.k = b.k AND b.x > 1", "anti"),
    (f"SELECT a.k FROM wide {W} a WHERE NOT EXISTS (SELECT * FROM wide {W} b WHERE a.k = b.k AND b.x > 1)", "anti"),
    (f"SELECT k FROM wide {W} a WHERE NOT EXISTS (SELECT 1 FROM wide {W} b WHERE a.k = k AND x > 1)", "anti"),
    (f"SELECT a.k FROM wide {W} a SEMI JOIN wide {W} b ON a.k = b.k AND b.x > 1", "semi"),
    (
        f"SELECT a.k FROM wide {W} a WHERE EXISTS (SELECT DISTINCT b.y FROM wide {W} b WHERE a.k = b.k AND b.x > 1)",
        "semi",
    ),
    (f"SELECT a.k FROM wide {W} a WHERE a.k IN (SELECT b.k FROM wide {W} b WHERE b.x > 1)", "semi"),
    (f"SELECT k FROM wide {W} a WHERE k IN (SELECT k FROM wide {W} b WHERE x > 1)", "semi"),
    (f"SELECT a.k, b.y FROM wide {W} a LEFT JOIN wide {W} b ON a.k = b.k AND b.x > 1", "left"),
    (f"SELECT a.k, b.y FROM wide {W} a LEFT OUTER JOIN wide {W} b ON a.k = b.k AND b.x > 1", "left"),
    (f"SELECT a.k, b.y FROM wide {W} b RIGHT JOIN wide {W} a ON a.k = b.k AND b.x > 1", "left"),
]


@pytest.mark.parametrize(("sql", "kind"), SAME)
def test_all_ways_to_write_a_leaf(query: Build, sql: str, kind: str) -> None:
    found = query(sql)
    assert found.leaf is not None
    assert (found.leaf.kind, [alias.name for alias in found.aliases]) == (kind, ["a", "b"])
    assert found.title == f"wide a {kind.upper()} JOIN wide b"
    assert [(each.left, each.right) for each in found.equalities] in ([("a", "b")], [("b", "a")])
    assert str(found.by_name["b"].filter) == '"x" > 1'
    assert found.by_name["a"].filter is None


def test_not_in_takes_what_may_be_equal_for_a_partner(query: Build) -> None:
    found = query(f"SELECT a.k FROM wide {W} a WHERE a.k NOT IN (SELECT b.k FROM wide {W} b)")
    (predicate,) = found.predicates
    assert predicate.theta.text == 'coalesce(("l.k" = "r.k"), TRUE)'


@pytest.mark.parametrize(
    ("value", "selected", "compared"),
    [
        ("a.ok", "b.ok OR b.k = 1", '"l.ok" = ("r.ok" OR "r.k" = 1)'),
        ("a.ok", "b.ok AND b.k = 1", '"l.ok" = ("r.ok" AND "r.k" = 1)'),
        ("(a.k = 1)", "b.k = b.x", '("l.k" = 1) = ("r.k" = "r.x")'),
    ],
)
def test_not_in_compares_whole_values(query: Build, value: str, selected: str, compared: str) -> None:
    found = query(f"SELECT a.k FROM wide {W} a WHERE {value} NOT IN (SELECT {selected} FROM wide {W} b)")
    (predicate,) = found.predicates
    assert predicate.theta.text == f"coalesce(({compared}), TRUE)"


def test_a_constant_in_on_of_an_inner_join_leaves_out_results(query: Build) -> None:
    """Also where the first alias is the one whose row may be missing."""
    found = query(
        f"SELECT a.k FROM wide {W} b RIGHT JOIN wide {W} a ON a.k = b.k JOIN wide {W} c ON a.k = c.k AND FALSE"
    )
    assert str(found.by_name["a"].filter) == "FALSE"
    assert found.by_name["b"].filter is None


def test_where_is_about_results_and_on_about_partners(query: Build) -> None:
    found = query(
        f"SELECT a.k FROM wide {W} a LEFT JOIN wide {W} b ON a.k = b.k AND a.x > 1 WHERE a.x > 2 AND b.x IS NULL"
    )
    assert found.leaf is not None
    assert str(found.by_name["a"].filter) == '"x" > 2'
    assert [each.theta.text for each in found.predicates] == ['"l.x" > 1']
    assert str(found.leaf.filter) == '("x" IS NULL)'
    ((alias, missing),) = found.leaf.missing
    assert (alias, str(missing)) == ("a", "(CAST(NULL AS INT) IS NULL)")


def test_a_star_has_what_can_be_named(query: Build) -> None:
    semi = query(f"SELECT * FROM wide {W} a SEMI JOIN orders {W} b ON a.k = b.id")
    left = query(f"SELECT * FROM wide {W} a LEFT JOIN orders {W} b ON a.k = b.id")
    alone = query(f"SELECT * FROM wide {W} a")
    assert [each.name for each in semi.outputs] == [each.name for each in alone.outputs]
    assert len(left.outputs) > len(alone.outputs)


def test_using_has_the_value_of_the_preserved_side(query: Build) -> None:
    for sql in (
        f"SELECT k FROM wide {W} a LEFT JOIN wide {W} b USING (k)",
        f"SELECT k FROM wide {W} b RIGHT JOIN wide {W} a USING (k)",
    ):
        (output,) = query(sql).outputs
        assert [column.row for column in output.expression.columns] == ["a"]


def test_a_subquery_without_a_condition_asks_whether_there_is_any_row(query: Build) -> None:
    found = query(f"SELECT a.k FROM wide {W} a WHERE NOT EXISTS (SELECT 1 FROM orders {W} b)")
    (predicate,) = found.predicates
    assert predicate.theta.is_always_true


REJECTED = [
    (
        "SELECT a.k FROM wide a LEFT JOIN wide b ON a.k = b.k LEFT JOIN wide c ON a.k = c.k WINDOW 1 DAY",
        "LEFT JOIN wide c",
        "a query has one LEFT",
    ),
    (
        "SELECT a.k FROM wide a SEMI JOIN wide b ON a.k = b.k WHERE NOT EXISTS (SELECT 1 FROM wide c WHERE c.k = a.k)"
        " WINDOW 1 DAY",
        "SELECT 1",
        "this one has 2",
    ),
    (
        "SELECT a.k FROM wide a LEFT JOIN (SELECT k FROM wide b WHERE EXISTS (SELECT 1 FROM wide c WHERE c.k = b.k)) t"
        " ON a.k = t.k WINDOW 1 DAY",
        "SELECT 1",
        "this one has 2",
    ),
    (
        "SELECT a.k FROM wide a SEMI JOIN (SELECT k FROM wide b WHERE x NOT IN (SELECT c.k FROM wide c)) t"
        " ON a.k = t.k WINDOW 1 DAY",
        "x NOT IN",
        "this one has 2",
    ),
    (
        "WITH t AS (SELECT k FROM wide b WHERE EXISTS (SELECT 1 FROM wide c WHERE c.k = b.k))"
        " SELECT a.k FROM wide a WHERE EXISTS (SELECT 2 FROM t WHERE t.k = a.k) WINDOW 1 DAY",
        "SELECT 1",
        "this one has 2",
    ),
    (
        "SELECT a.k FROM wide b JOIN wide c ON b.k = c.k RIGHT JOIN wide a ON a.k = b.k WINDOW 1 DAY",
        "RIGHT JOIN",
        "more than one stream on its left",
    ),
    (
        "SELECT a.k FROM wide a LEFT JOIN wide b ON a.k = b.k JOIN wide c ON b.k = c.k WINDOW 1 DAY",
        "b.k = c.k",
        "reads b, whose row may be missing",
    ),
    (
        "SELECT a.k FROM wide a JOIN wide c ON a.k = c.k LEFT JOIN wide b ON a.k = b.k AND a.x = c.x WINDOW 1 DAY",
        "a.x = c.x",
        "reads 2 aliases, but not b",
    ),
    (
        "SELECT a.k FROM wide a JOIN wide c ON a.k = c.k LEFT JOIN wide b ON a.x + b.x = c.x WINDOW 1 DAY",
        "a.x + b.x = c.x",
        "reads 3 aliases",
    ),
    ("SELECT a.k FROM wide [UNBOUNDED] a LEFT JOIN wide [RANGE 1 DAY] b USING (k)", "a LEFT", "needs a window on"),
    ("SELECT a.k FROM wide [UNBOUNDED] a ANTI JOIN wide [RANGE 1 DAY] b USING (k)", "a ANTI", "UNBOUNDED has no end"),
    ("SELECT a.k FROM wide a LEFT JOIN wide b WINDOW 1 DAY", "b WINDOW", "LEFT JOIN has no condition"),
    ("SELECT b.k FROM wide a SEMI JOIN wide b ON a.k = b.k WINDOW 1 DAY", "b.k", "unknown alias b"),
    ("SELECT a.k FROM wide a ANTI JOIN wide b ON a.k = b.k WHERE b.x = 1 WINDOW 1 DAY", "b.x", "unknown alias b"),
    ("SELECT k FROM wide a LEFT JOIN wide b ON a.k = b.k WINDOW 1 DAY", "k", "column k is ambiguous"),
    ("SELECT a.k FROM wide a SEMI JOIN wide b ON k = k WINDOW 1 DAY", "k = k", "ambiguous"),
    (
        "SELECT a.k FROM wide a, wide c WHERE EXISTS (SELECT 1 FROM wide b WHERE b.k = a.k AND b.x = c.x) WINDOW 1 DAY",
        "c WHERE",
        "nothing joins c to a",
    ),
    (
        "SELECT a.k FROM wide a WHERE EXISTS (SELECT 1 FROM wide b JOIN wide c USING (k) WHERE b.k = a.k) WINDOW 1 DAY",
        "wide c",
        "more than one stream",
    ),
    (
        "SELECT a.k FROM wide a WHERE a.k IN (SELECT b.k, b.x FROM wide b) WINDOW 1 DAY",
        "SELECT b.k, b.x",
        "select one column",
    ),
    ("SELECT a.k FROM wide a WHERE a.k IN (SELECT * FROM wide b) WINDOW 1 DAY", "SELECT *", "select one column"),
    (
        "SELECT a.k FROM wide a WHERE a.x = 1 OR EXISTS (SELECT 1 FROM wide b WHERE b.k = a.k) WINDOW 1 DAY",
        "SELECT 1",
        "can stand between the ANDs of WHERE",
    ),
    (
        "SELECT a.k FROM wide a WHERE a.x > (SELECT b.x FROM wide b) WINDOW 1 DAY",
        "SELECT b.x",
        "subqueries are not supported here",
    ),
    (
        "SELECT a.k FROM wide a WHERE EXISTS (SELECT max(b.x) FROM wide b WHERE b.k = a.k) WINDOW 1 DAY",
        "max",
        "aggregate function max",
    ),
    (
        "SELECT a.k FROM wide a WHERE EXISTS (SELECT 1 FROM wide b WHERE b.k = a.k GROUP BY b.x) WINDOW 1 DAY",
        "GROUP BY",
        "GROUP BY is not supported",
    ),
    (
        "SELECT a.k, exp(b.x) AS e FROM wide a LEFT JOIN wide b ON a.k = b.k WINDOW 1 DAY",
        "exp(b.x)",
        "computed by Spark from rows of b, which may be missing",
    ),
    (
        "SELECT a.k FROM wide a LEFT JOIN wide b ON a.k = b.k WHERE exp(b.x) > 1 WINDOW 1 DAY",
        "exp(b.x)",
        "computed by Spark",
    ),
]


@pytest.mark.parametrize(("sql", "points_at", "fragment"), REJECTED)
def test_rejected(query: Build, sql: str, points_at: str, fragment: str) -> None:
    with pytest.raises(SqlError) as caught:
        query(sql)
    assert fragment in str(caught.value)
    place = caught.value.place
    assert place is not None
    assert sql[place.start :].startswith(points_at)
    assert caught.value.hint or caught.value.detail
