"""Predicates between two aliases that are no equalities: their texts, and the bands and programs they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watersmeet.model import CROSS, JoinForm, Theta

Build = Callable[[str], JoinForm]


def thetas(query: Build, condition: str) -> list[Theta]:
    found = query(f"SELECT a.k FROM wide a, wide b WHERE {condition} WINDOW 1 DAY")
    assert not found.equalities
    assert all((one.left, one.right) == ("a", "b") for one in found.predicates)
    return [one.theta for one in found.predicates]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("a.k < b.x", '"l.k" < "r.x"'),
        ("b.x > a.k", '"r.x" > "l.k"'),
        ("a.k <> b.k", '"l.k" <> "r.k"'),
        ("a.k = b.k OR a.x = b.x", '"l.k" = "r.k" OR "l.x" = "r.x"'),
        ("a.n = b.n OR a.k = 1", '"l.n" = "r.n" OR "l.k" = 1'),
        ("a.k <=> b.k", '("l.k" IS NOT DISTINCT FROM "r.k")'),
        ("contains(a.n, b.n)", 'contains("l.n", "r.n")'),
        ("a.st.f < b.k", '"l.st"."f" < "r.k"'),
        ("a.k + b.k = 7", '"l.k" + "r.k" = 7'),
    ],
)
def test_the_text_does_not_depend_on_the_names_of_aliases(query: Build, condition: str, text: str) -> None:
    assert [theta.text for theta in thetas(query, condition)] == [text]
    renamed = condition.replace("a.", "one.").replace("b.", "two.")
    other = query(f"SELECT one.k FROM wide two, wide one WHERE {renamed} WINDOW 1 DAY")
    assert [predicate.mirrored.text for predicate in other.predicates] == [text]


@pytest.mark.parametrize(
    ("condition", "low", "high", "kind", "proves"),
    [
        ("a.k < b.x", 1, None, "bigint", True),
        ("a.k >= b.x", None, 0, "bigint", True),
        ("a.k + 3 >= b.x - 2", None, 5, "bigint", False),
        ("abs(a.k - b.x) < 5", -4, 4, "bigint", False),
        ("abs(b.x - a.k) <= 5", -5, 5, "bigint", False),
        ("a.k - b.x > 2", None, -3, "bigint", False),
        ("2 > a.k - b.x", -1, None, "bigint", False),
        ("a.k - b.k = 0", 0, 0, "bigint", False),
        ("abs(a.d - b.k) < 2.5", -2.5, 2.5, "double", False),
        ("a.de < b.d", 0, None, "double", False),
        ("a.ts < b.ts", 1, None, "timestamp", True),
        ("a.ts >= b.ts - INTERVAL '2' SECOND", None, 2_000_000, "timestamp", True),
        ("a.ts - b.ts < INTERVAL '2' SECOND", -1_999_999, None, "timestamp", False),
        ("a.dt < b.ts", 1, None, "timestamp", True),
    ],
)
def test_a_bound_on_a_difference_is_a_band(
    query: Build, condition: str, low: float | None, high: float | None, kind: str, proves: bool
) -> None:
    (theta,) = thetas(query, condition)
    band = theta.band
    assert band is not None
    assert (band.low, band.high, band.left.type, band.right.type, band.proves) == (low, high, kind, kind, proves)


def test_between_is_two_predicates_with_one_end_each(query: Build) -> None:
    bands = [theta.band for theta in thetas(query, "a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts")]
    assert {(band.low, band.high) for band in bands if band} == {(0, None), (None, 1_000_000)}


@pytest.mark.parametrize(
    "condition",
    ["a.k <> b.k", "a.n < b.n", "a.k * b.k < 5", "a.k = b.k OR a.x < b.x", "a.ok < b.ok", "abs(a.k - b.k) > 5"],
)
def test_what_is_no_band(query: Build, condition: str) -> None:
    (theta,) = thetas(query, condition)
    assert theta.band is None


@pytest.mark.parametrize(
    ("condition", "program", "strict"),
    [
        ("a.k * b.k < 5", "row row * number <", True),
        ("a.d + 0.5 < b.d", "row number + row <", True),
        ("a.k < b.k OR a.x > b.x", "row row < row row > or", False),
        ("NOT (a.k < b.k)", "row row < not", True),
        ("NOT (a.k < b.k AND a.x < b.x)", "row row < row row < and not", False),
        ("a.ts + INTERVAL '1' SECOND > b.ts", "row number + row >", True),
        ("a.dt < b.dt", "row row <", True),
        ("a.k * 0.5 < b.k", "", False),  # decimals
        ("a.dt < b.ts", "", False),
        ("a.n < b.n", "", False),
        ("a.de < b.de", "", False),
        ("a.k IS NULL OR b.k > a.x", "", False),
    ],
)
def test_numeric_predicates_have_a_program(query: Build, condition: str, program: str, strict: bool) -> None:
    (theta,) = thetas(query, condition)
    assert " ".join(name for name, _ in theta.program) == program
    assert theta.strict is strict


def test_a_cross_join_is_a_predicate_only_where_nothing_else_joins(query: Build) -> None:
    crossed = query("SELECT a.k FROM wide a CROSS JOIN orders b WINDOW 1 DAY")
    assert [(one.left, one.right, one.theta) for one in crossed.predicates] == [("a", "b", CROSS)]
    joined = query("SELECT a.k FROM wide a CROSS JOIN orders b WHERE a.k = b.customer WINDOW 1 DAY")
    assert not joined.predicates


def test_predicates_beside_equalities(query: Build) -> None:
    found = query("SELECT a.k FROM wide a JOIN wide b ON a.k = b.k AND a.ts < b.ts AND a.x > 3 WINDOW 1 DAY")
    assert len(found.equalities) == len(found.predicates) == 1
    assert str(found.aliases[0].filter) == '"x" > 3'
