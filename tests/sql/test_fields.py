"""Every field that the parser's nodes have is read or rejected, in both kinds of queries and in all expressions.

The test goes through the nodes of queries that use all that is supported, and gives every field of every node that has
no value one. Whatever the parser might say by that, the query must then be another one, or be rejected. So nothing is
written that has no effect, whatever a later version of the parser has fields for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.model import Stream
from watersmeet.sql import build_query
from watersmeet.sql.parse import queries
from watersmeet.sql.parse.fields import WITHOUT_MEANING, remember_reads, unread
from watersmeet.sql.parse.tokens import SPARK
from watersmeet.sql.site import Site

SCALARS = [
    *("a.x + 1", "-a.x - 2 * a.x / 3 % 4", "a.x div 2", "a.n || 'x'", "NOT a.ok", "a.x BETWEEN 1 AND 2"),
    *("a.x IN (1, 2)", "a.n LIKE 'a!%' ESCAPE '!'", "a.n IS NULL", "a.ok AND (a.x > 1 OR a.x < 0)", "a.ok IS TRUE"),
    *("CASE a.x WHEN 1 THEN 'a' ELSE 'b' END", "CASE WHEN a.ok THEN 1 END", "CAST(a.x AS BIGINT)", "`a`.`x`"),
    *("if(a.ok, 1, 2)", "a.arr[0]", "a.st.f", "substring(a.n, 1, 2)", "trim(a.n)", "EXTRACT(DAY FROM a.ts)"),
    *("a.ts + INTERVAL '1' DAY", "coalesce(a.x, NULL, 1.5, 2e0)", "timestampdiff(SECOND, a.ts, a.ts)", "a.x <=> 1"),
    *("(a.x & 1) + (a.x | 2) + (a.x ^ ~3)", "a.n LIKE ANY ('a', 'b')", "position('a' IN a.n)", "r'a'"),
    *("CAST(a.x AS DECIMAL(9, 2))", "a.n ILIKE 'a'", "a.n RLIKE 'a'", "a.x = 1 AND a.x <> 2 AND a.x <= 3 AND a.x >= 4"),
]
CONTINUOUS = [
    *(f"SELECT {scalar} AS v FROM wide a WINDOW 1 DAY" for scalar in SCALARS),
    "SELECT a.k FROM wide a WHERE a.ok AND (a.x > 1 OR a.x < 0) WINDOW 1 DAY",
    "SELECT a.k, b.* FROM wide a JOIN wide b ON a.k = b.k AND a.x < b.x WINDOW 1 DAY",
    "SELECT *, c.x + 1 AS z FROM wide a CROSS JOIN wide b, wide AS c WHERE a.k = c.k WINDOW 1 DAY",
    "SELECT a.k FROM (wide a) LEFT JOIN wide b USING (k) WINDOW 1 DAY",
    "SELECT a.k FROM wide a WHERE EXISTS (SELECT 1 FROM wide b WHERE a.k = b.k) WINDOW 1 DAY",
    "SELECT a.k FROM wide a WHERE a.k NOT IN (SELECT b.x FROM wide b WHERE a.n = b.n) WINDOW 1 DAY",
    "SELECT a.k FROM wide a LEFT ANTI JOIN wide b ON a.k = b.k WINDOW 1 DAY",
]
WINDOWED = [
    *(f"SELECT {scalar} AS v FROM wide a WINDOW TUMBLE 1 DAY" for scalar in SCALARS),
    "SELECT a.k FROM wide a WHERE a.ok AND (a.x > 1 OR a.x < 0) WINDOW TUMBLE 1 DAY",
    "SELECT a.k, b.* FROM wide a LEFT JOIN (wide b FULL JOIN wide c USING (k)) ON a.k = b.k WINDOW TUMBLE 1 DAY",
    "SELECT a.k FROM (SELECT k, x FROM wide) a NATURAL JOIN (SELECT k, y FROM wide) b, (SELECT x FROM wide) AS c (y)"
    " WINDOW TUMBLE 1 DAY",
    "SELECT a.k, count(*) AS n, sum(DISTINCT a.x) AS s, max(a.x) FILTER (WHERE a.ok) AS m FROM wide a GROUP BY a.k"
    " HAVING count(*) > 1 ORDER BY n DESC NULLS LAST, s LIMIT 3 OFFSET 1 WINDOW TUMBLE 1 DAY",
    "SELECT DISTINCT a.k FROM wide a WHERE a.x = (SELECT max(b.x) FROM wide b WHERE b.k = a.k)"
    " AND EXISTS (SELECT 1 FROM wide c WHERE a.k = c.k) AND a.k IN (SELECT k FROM wide) WINDOW TUMBLE 1 DAY",
    "WITH q (u) AS (SELECT k FROM wide) (SELECT u FROM q UNION ALL SELECT x FROM wide LIMIT 2) EXCEPT SELECT y"
    " FROM wide ORDER BY 1 WINDOW TUMBLE 1 DAY",
    "SELECT rank() OVER (PARTITION BY a.k ORDER BY a.x DESC) AS r FROM wide a GROUP BY ALL WINDOW TUMBLE 1 DAY",
    "SELECT z.k FROM (wide a JOIN wide b USING (k)) AS z WINDOW TUMBLE 1 DAY",
]
# What says nothing about the result, each with the reason.
SAME = {
    (exp.Identifier, "quoted"): "a name is the same name in quotes",
    (exp.Select, "hint"): "how Spark computes it",
    (exp.Window, "over"): "the word OVER",
    (exp.Div, "safe"): "for dialects with another division",
    (exp.Div, "typed"): "for dialects with another division",
    (exp.DPipe, "safe"): "for dialects with another ||",
    (exp.DataType, "nested"): "brackets or parentheses around parameters of a type",
    (exp.TryCast, "safe"): "what cannot be converted is NULL in any case",
    (exp.Literal, "is_string"): "Spark converts '1' to the number that is needed",
    (exp.Subquery, "alias"): "the name of a query of which nothing is read by name",
}


def nodes(text: str) -> list[Any]:
    root: Any = SPARK.parse(text.partition(" WINDOW ")[0])[0]
    return list(root.walk(bfs=False))


def places(text: str, known: set[tuple[str, ...]]) -> Iterator[tuple[int, str]]:
    """Every field of every node, each once for the classes of nodes that it stands in."""
    for at, node in enumerate(nodes(text)):
        for name in type(node).arg_types:
            kinds = (type(node).__name__, name, type(node.parent).__name__, str(node.arg_key))
            if kinds not in known:
                known.add(kinds)
                yield at, name


@pytest.mark.parametrize("texts", [CONTINUOUS, WINDOWED], ids=["continuous", "windowed"])
def test_every_field_is_read_or_rejected(
    streams: dict[str, Stream], monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    ignored, tried, known = [], 0, set[tuple[str, ...]]()
    for text in texts:
        whole = build_query("q", text, streams)
        for at, name in places(text, known):
            given = nodes(text)
            node = given[at]
            if node.args.get(name) not in (None, False, []):
                continue
            node.args[name] = True
            remember_reads(given[0])
            tried += 1
            with monkeypatch.context() as patch:
                patch.setattr(queries, "parsed", lambda *_, root=given[0]: root)
                try:
                    other: object = build_query("q", text, streams)
                except Exception:  # also of a reader that expected something else there: it has looked
                    continue
            in_a_subquery = texts is CONTINUOUS and name == "distinct" and node.parent is not None
            if other == whole and (type(node), name) not in SAME and not in_a_subquery:
                ignored.append(f"{type(node).__name__}.{name} in {text}")
    assert ignored == []
    assert tried > 400


def test_what_has_no_meaning_is_a_short_list() -> None:
    assert set(SAME) >= WITHOUT_MEANING


def test_a_field_that_nobody_reads_is_found_with_its_node() -> None:
    root: Any = SPARK.parse("SELECT a.k FROM wide a QUALIFY a.k > 1")[0]
    remember_reads(root)
    _ = root.expressions, root.args["from_"].this
    assert ("qualify", exp.Select) in [(name, type(node)) for node, name in unread(root)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT a.k FROM wide a LIMIT 3 BY a.k WINDOW TUMBLE 1 DAY", "a.k is not supported here"),
        (
            "SELECT a.k FROM wide a JOIN wide b JOIN wide c ON b.k = c.k ON a.k = b.k WINDOW TUMBLE 1 DAY",
            "wide c ON b.k = c.k is not",
        ),
        (
            "SELECT a.k FROM wide a JOIN wide b JOIN wide c ON b.k = c.k ON a.k = b.k WINDOW 1 DAY",
            "wide c ON b.k = c.k is not",
        ),
        ("SELECT a.k FROM (wide a) TABLESAMPLE (3 ROWS) WINDOW TUMBLE 1 DAY", "TABLESAMPLE is not supported"),
        ("SELECT a.k FROM (wide a) TABLESAMPLE (3 ROWS) WINDOW 1 DAY", "TABLESAMPLE is not supported"),
        ("SELECT a.k FROM wide a ORDER BY a.k WITH FILL WINDOW TUMBLE 1 DAY", "WITH is not supported here"),
        ("SELECT a.k FROM wide a ASOF JOIN wide b ON a.k = b.k WINDOW TUMBLE 1 DAY", "ASOF JOIN is not supported"),
        ("SELECT a.k FROM wide a OUTER JOIN wide b ON a.k = b.k WINDOW TUMBLE 1 DAY", "OUTER JOIN is not supported"),
        ("SELECT a.k FROM wide a NATURAL JOIN wide b ON a.k = b.k WINDOW TUMBLE 1 DAY", "NATURAL JOIN is not"),
        ("SELECT CAST(a.n AS INT FORMAT 'YYYY') AS d FROM wide a WINDOW 1 DAY", "FORMAT is not supported here"),
    ],
)
def test_what_other_dialects_say_is_rejected_at_its_place(streams: dict[str, Stream], text: str, problem: str) -> None:
    with pytest.raises(SqlError) as caught:
        build_query("q", text, streams)
    assert problem in caught.value.problem
    place = caught.value.place
    assert place is not None
    assert place.start > 0
    assert Site(text).text == place.text
