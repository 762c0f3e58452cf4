"""Accepted queries and the model values they become."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.declarations import continuous_query
from watersmeet.model import Alias, ColumnRef, Equality, JoinForm, KeyPart, Output, Stream

Build = Callable[[str], JoinForm]
Key = tuple[str, str, str | None]  # text, type, and the column that it is
JOINED = "FROM orders o, items i WHERE o.id = i.order_id"


def test_a_whole_query(query: Build) -> None:
    found = query(
        """SELECT o.id, i.qty * 2 AS twice, NOTE
        FROM orders [RANGE 10 SECONDS] AS o JOIN items i [UNBOUNDED] ON i.order_id = o.id AND i.qty > 3
        WHERE 100 < o.PRICE AND md5(o.note) = 'x'"""
    )
    assert [(alias.name, alias.stream, alias.window, str(alias.filter)) for alias in found.aliases] == [
        ("o", "orders", 10_000_000, '("price" > CAST(100.00 AS DECIMAL(10, 2))) AND (md5("Note") = \'x\')'),
        ("i", "items", None, '"qty" > 3'),
    ]
    keys = KeyPart(ColumnRef("id", "bigint"), "bigint"), KeyPart(ColumnRef("order_id", "bigint"), "bigint")
    assert found.equalities == (Equality("o", "i", keys[0], keys[1]),)
    assert [(output.name, output.type, output.expression.text) for output in found.outputs] == [
        ("id", "bigint", '"o.id"'),
        ("twice", "int", '"i.qty" * 2'),
        ("NOTE", "string", '"o.Note"'),
    ]


@pytest.mark.parametrize(
    ("from_", "windows"),
    [
        ("orders [RANGE 1 MINUTE] o, items [UNBOUNDED] i", [60_000_000, None]),
        ("orders o [RANGE INTERVAL '10' SECOND], items AS i [RANGE 0.5 SECONDS]", [10_000_000, 500_000]),
        ("orders [range 7 microseconds]\no, items i [unbounded]", [7, None]),
        ("orders o, items [RANGE 2 hours] i", [1_000_000, 7_200_000_000]),
    ],
)
def test_windows(query: Build, from_: str, windows: list[int | None]) -> None:
    end = "WINDOW 1 SECOND" if 1_000_000 in windows else ""
    found = query(f"SELECT o.id FROM {from_} WHERE o.id = i.order_id {end}")
    assert [alias.window for alias in found.aliases] == windows


@pytest.mark.parametrize("end", ["WINDOW UNBOUNDED", "WINDOW unbounded;"])
def test_query_wide_unbounded(query: Build, end: str) -> None:
    assert [alias.window for alias in query(f"SELECT o.id {JOINED} {end}").aliases] == [None, None]


def test_array_access_is_no_window(query: Build) -> None:
    (output,) = query("SELECT w.arr[0] AS first FROM wide [RANGE 1 DAY] w").outputs
    assert output.type == "int"
    assert '"w.arr"[1]' in output.expression.text  # DuckDB counts from 1
    assert output.expression.columns == (ColumnRef("arr", "array<int>", "w"),)


@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [
        ("a.k = b.k", ('"k"', "int", "k"), ('"k"', "int", "k")),
        ("b.x = A.K", ('"k"', "int", "k"), ('"x"', "int", "x")),
        ("md5(a.n) = b.n", ('md5("n")', "string", None), ('"n"', "string", "n")),
        ("a.x + 1 = b.y", ('"x" + 1', "int", None), ('"y"', "int", "y")),
        ("CAST(a.x AS BIGINT) = b.y", ('CAST("x" AS BIGINT)', "bigint", None), ('CAST("y" AS BIGINT)', "bigint", None)),
        ("a.k = b.d", ('CAST("k" AS DOUBLE)', "double", None), ('"d"', "double", "d")),
        (
            "a.k = b.de",
            ('CAST("k" AS DECIMAL(12, 2))', "decimal(12,2)", None),
            ('CAST("de" AS DECIMAL(12, 2))', "decimal(12,2)", None),
        ),
        ("a.ts = b.dt", ('"ts"', "timestamp", "ts"), ('CAST("dt" AS TIMESTAMP)', "timestamp", None)),
        ("a.ts = b.tn", ('"ts"', "timestamp", "ts"), ('"tn"', "timestamp", "tn")),
        ("a.st.f = b.x", ('"st"."f"', "int", None), ('"x"', "int", "x")),
    ],
)
def test_keys(query: Build, condition: str, left: Key, right: Key) -> None:
    (found,) = query(f"SELECT a.k FROM wide a, wide b WHERE {condition} WINDOW 1 DAY").equalities
    assert (found.left, found.right) == ("a", "b")
    assert [(part.expression.text, part.type, part.column) for part in (found.left_key, found.right_key)] == [
        left,
        right,
    ]


def test_equalities_are_oriented_sorted_and_unique(query: Build) -> None:
    one = query("SELECT a.k FROM wide a JOIN wide b ON b.y = a.y AND a.x = b.x WHERE b.x = a.x WINDOW 1 DAY")
    other = query("SELECT a.k FROM wide a, wide b WHERE a.x = b.x AND a.y = b.y WINDOW 1 DAY")
    assert one.equalities == other.equalities
    assert [equality.left_key.column for equality in one.equalities] == ["x", "y"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.x > 1 AND a.n = 'u'", "a.N = 'u' AND (1 < a.X)"),
        ("a.x > 1 AND a.x > 1", "A.x > 1"),
        ("NOT (a.x = 1)", "! (a.x == 1)"),
        ("a.n LIKE 'a%' AND a.x IS NULL", "a.x is null and (a.n like 'a%')"),
    ],
)
def test_equal_filters_have_equal_texts(query: Build, one: str, other: str) -> None:
    mine = query(f"SELECT a.k FROM wide a WHERE {one} WINDOW 1 DAY").aliases[0].filter
    its = query(f"SELECT zz.k FROM wide zz WHERE {other.replace('a.', 'zz.').replace('A.', 'ZZ.')} WINDOW 1 DAY")
    assert mine == its.aliases[0].filter


def test_conditions_without_columns(query: Build) -> None:
    found = query(f"SELECT o.id {JOINED} AND 1 = 0 AND TRUE WINDOW 1 DAY")
    assert [str(alias.filter) for alias in found.aliases] == ["1 = 0", "None"]


def test_using_makes_one_column(query: Build) -> None:
    found = query("SELECT k, a.x AS ax FROM wide a JOIN wide b USING (k) JOIN wide c USING (k) WINDOW 1 DAY")
    assert [(equality.left, equality.right) for equality in found.equalities] == [("a", "b"), ("a", "c")]
    assert found.outputs[0] == Output("k", "int", ColumnRef("k", "int", "a"))


def test_star_prefixes_only_clashing_names(query: Build) -> None:
    found = query(f"SELECT * {JOINED} WINDOW 1 DAY")
    names = ["id", "customer", "price", "Note", "day", "o_ts", "order_id", "sku", "qty", "weight", "i_ts"]
    assert [output.name for output in found.outputs] == names
    assert found.outputs[-1] == Output("i_ts", "timestamp_ntz", ColumnRef("ts", "timestamp_ntz", "i"))


def test_star_with_using_gives_the_merged_column_once(query: Build) -> None:
    found = query("SELECT * FROM items a JOIN items b USING (sku) WINDOW 1 DAY")
    assert [output.name for output in found.outputs][:3] == ["sku", "a_order_id", "a_qty"]
    assert len(found.outputs) == 9


def test_star_of_one_alias(query: Build) -> None:
    found = query(f"SELECT i.*, o.ts AS placed {JOINED} WINDOW 1 DAY")
    assert [output.name for output in found.outputs] == ["order_id", "sku", "qty", "weight", "ts", "placed"]


def test_single_alias_and_stream_name_as_alias(query: Build) -> None:
    found = query("SELECT orders.id FROM `orders` [RANGE 1 DAY]")
    assert found.aliases == (Alias("orders", "orders", 86_400_000_000),)


def test_text_beyond_ascii_keeps_positions(query: Build) -> None:
    found = query("SELECT /* größer 😀 */ a.n FROM wide [RANGE 1 DAY] a WHERE a.n = 'é😀''s'\r\n-- ende")
    assert str(found.aliases[0].filter) == "\"n\" = 'é😀''s'"


def test_sql_is_kept_without_the_semicolon(streams: dict[str, Stream]) -> None:
    assert (
        continuous_query("q", "SELECT k FROM wide [UNBOUNDED] ;", streams).sql.strip()
        == "SELECT k FROM wide [UNBOUNDED]"
    )
