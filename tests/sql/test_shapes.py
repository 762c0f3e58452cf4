"""A join may be written in several ways: each pair of texts gives the same form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watersmeet.model import JoinForm

PAIRS = [
    (
        "SELECT a.k FROM wide a JOIN (wide b JOIN wide c ON b.k = c.k) ON a.k = b.k",
        "SELECT a.k FROM wide a JOIN wide b ON a.k = b.k JOIN wide c ON b.k = c.k",
    ),
    (
        "SELECT a.k, b.x FROM wide a JOIN (wide b LEFT JOIN wide c ON b.k = c.k) ON a.k = b.k",
        "SELECT a.k, b.x FROM wide a JOIN wide b ON a.k = b.k LEFT JOIN wide c ON b.k = c.k",
    ),
    (
        "SELECT a.k, b.x FROM wide b RIGHT JOIN (wide a JOIN wide c ON a.k = c.k) ON a.y = b.y",
        "SELECT a.k, b.x FROM wide a JOIN wide c ON a.k = c.k LEFT JOIN wide b ON a.y = b.y",
    ),
    (
        "SELECT a.k, c.x FROM wide a JOIN (wide c RIGHT JOIN wide b ON b.k = c.k) ON a.k = b.k",
        "SELECT a.k, c.x FROM wide a JOIN wide b ON a.k = b.k LEFT JOIN wide c ON b.k = c.k",
    ),
    (
        "SELECT t.k, t.x + 1 AS x FROM (SELECT k, x * 2 AS x FROM wide WHERE y > 1) t WHERE t.x > 3",
        "SELECT k, x * 2 + 1 AS x FROM wide WHERE y > 1 AND x * 2 > 3",
    ),
    (
        "SELECT a.k, t.x FROM wide a LEFT JOIN (SELECT k, x FROM wide b WHERE y > 1) t ON a.k = t.k",
        "SELECT a.k, b.x FROM wide a LEFT JOIN wide b ON a.k = b.k AND b.y > 1",
    ),
    (
        "SELECT t.k, b.x FROM (SELECT k FROM wide a WHERE y > 1) t LEFT JOIN wide b ON t.k = b.k",
        "SELECT a.k, b.x FROM wide a LEFT JOIN wide b ON a.k = b.k WHERE a.y > 1",
    ),
    (
        "SELECT t.z, c.x FROM (SELECT a.k, coalesce(b.x, 0) AS z FROM wide a LEFT JOIN wide b ON a.k = b.k) t"
        " JOIN wide c ON t.k = c.k",
        "SELECT coalesce(b.x, 0) AS z, c.x FROM wide a LEFT JOIN wide b ON a.k = b.k JOIN wide c ON a.k = c.k",
    ),
    (
        "WITH t AS (SELECT k, x FROM wide b) SELECT a.k FROM wide a ANTI JOIN t ON a.k = t.k AND t.x + 1 > a.x",
        "SELECT a.k FROM wide a ANTI JOIN wide b ON a.k = b.k AND b.x + 1 > a.x",
    ),
    (
        "SELECT a.k FROM wide a WHERE NOT EXISTS (SELECT 1 FROM (SELECT k FROM wide b WHERE ok) t WHERE t.k = a.k)",
        "SELECT a.k FROM wide a WHERE NOT EXISTS (SELECT 1 FROM wide b WHERE b.ok AND b.k = a.k)",
    ),
    (
        "SELECT a.i, b.sku FROM orders AS a (i, c, p, n, d, t) JOIN items b ON a.i = b.order_id",
        "SELECT a.id AS i, b.sku FROM orders a JOIN items b ON a.id = b.order_id",
    ),
    (
        "SELECT k, x + y AS s, s * 2 AS d, -s AS m FROM wide",
        "SELECT k, x + y AS s, (x + y) * 2 AS d, -(x + y) AS m FROM wide",
    ),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_same_join(query: Callable[[str], JoinForm], one: str, other: str) -> None:
    found, expected = query(f"{one} WINDOW 1 DAY"), query(f"{other} WINDOW 1 DAY")
    assert {each.name for each in found.outputs} == {each.name for each in expected.outputs}
    assert _without_order(found) == _without_order(expected)


def _without_order(form: JoinForm) -> tuple[object, ...]:
    """The order of aliases is that of the text."""
    outputs = tuple(each.expression for each in form.outputs)
    sides = {frozenset([(e.left, e.left_key), (e.right, e.right_key)]) for e in form.equalities}
    return set(form.aliases), sides, outputs, form.leaf, len(form.predicates)


def test_an_alias_inside_of_exists_may_also_exist_outside(query: Callable[[str], JoinForm]) -> None:
    form = query("SELECT a.k FROM wide a WHERE EXISTS (SELECT 1 FROM wide a WHERE a.k = 1) WINDOW 1 DAY")
    assert [alias.name for alias in form.aliases] == ["a", "a_2"]


def test_a_window_inside_of_with_belongs_to_every_use(query: Callable[[str], JoinForm]) -> None:
    form = query(
        "WITH t AS (SELECT k FROM wide [RANGE 5 SECONDS] b) "
        "SELECT t.k FROM t, t AS u, wide [RANGE 1 DAY] c WHERE t.k = u.k AND u.k = c.k"
    )
    assert [(alias.name, alias.window) for alias in form.aliases] == [
        ("b", 5_000_000),
        ("b_2", 5_000_000),
        ("c", 86_400_000_000),
    ]
