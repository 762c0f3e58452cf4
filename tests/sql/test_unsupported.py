"""What a query may not say: each case with the place it points at and a fragment of the message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watersmeet.errors import SqlError
from watersmeet.model import Query

Build = Callable[[str], Query]
FROM = "FROM wide a WINDOW 1 DAY"

CASES = [
    # windows
    ("SELECT a.k FROM wide a", "a", "alias a has no window"),
    ("SELECT a.k FROM wide [RANGE 1 DAY] a, wide b WHERE a.k = b.k", "b WHERE", "alias b has no window"),
    ("SELECT a.k FROM wide [RANGE 1 MONTH] a", "1 MONTH", "a month has no fixed length"),
    ("SELECT a.k FROM wide [RANGE 1 PARSEC] a", "1 PARSEC", "Units: MICROSECONDS"),
    ("SELECT a.k FROM wide [RANGE] a", "[RANGE]", "not a duration"),
    ("SELECT a.k FROM wide [RANGE 0.5 MICROSECONDS] a", "0.5", "whole number of microseconds"),
    ("SELECT a.k FROM wide [RANGE 'x' DAYS] a", "'x'", "x is not a number"),
    ("SELECT a.k FROM wide [RANGE 999999999 WEEKS] a", "999999999", "use UNBOUNDED"),
    ("SELECT a.k FROM wide [UNBOUNDED 1 DAY] a", "1 DAY", "nothing may follow UNBOUNDED"),
    ("SELECT a.k FROM wide [RANGE 1 DAY] a [UNBOUNDED]", "[UNBOUNDED]", "two windows"),
    ("SELECT a.k FROM wide [HOP 1 DAY] a", "HOP", "there is no window HOP"),
    ("SELECT a.k FROM wide a [Rows 5]", "Rows", "RANGE r, RANGE r SLIDE s, TUMBLE r or UNBOUNDED"),
    ("SELECT a.k FROM wide [RANGE 1 DAY a", "[RANGE", "no closing bracket"),
    ("SELECT a.k [UNBOUNDED] FROM wide [RANGE 1 DAY] a", "[UNBOUNDED]", "belongs to no stream"),
    ("SELECT a.k FROM wide a WINDOW 1 DAY WHERE a.k = 1", "WHERE", "WINDOW must be the last clause"),
    ("SELECT a.k FROM wide a WINDOW w AS (ORDER BY a.k)", "WINDOW", "write WINDOW 10 SECONDS"),
    # stars and commas
    (f"SELECT coalesce(*) AS x {FROM}", "*", "* is not supported inside of an expression"),
    (f"SELECT coalesce(a.*) AS x {FROM}", "a.*", "* is not supported inside of an expression"),
    (f"SELECT a.k, {FROM}", ",", "unexpected ,"),
    ("SELECT a.k FROM wide a, WINDOW 1 DAY", ",", "unexpected ,"),
    (f"SELECT coalesce(a.k,) AS x {FROM}", ",)", "unexpected ,"),
    # what other dialects have, and what the parser would rewrite
    ("SELECT a.x + 1 AS x FROM wide a |> WHERE x > 1 WINDOW 1 DAY", "|>", "pipe syntax is not supported"),
    ("FROM wide a |> LIMIT 3 WINDOW 1 DAY", "|>", "pipe syntax is not supported"),
    (f"SELECT {{fn abs(a.x)}} AS x {FROM}", "{", "braces are not supported"),
    (f"SELECT a.n LIKE ANY 'a' AS x {FROM}", "a.n", "this LIKE is not supported"),
    (f"SELECT a.n LIKE ANY ('a') ESCAPE '/' AS x {FROM}", "a.n", "this LIKE is not supported"),
    (f"SELECT if(a.x > 1, 2) AS x {FROM}", "if", "if with two arguments"),
    (f"SELECT CAST(a.x AS FLOAT(3)) AS x {FROM}", "CAST", "unknown type FLOAT(3)"),
    (f"SELECT CAST(a.x AS FLOAT(OVER)) AS x {FROM}", "CAST", "unknown type FLOAT(OVER)"),
    (f"SELECT CAST(a.ts AS TIMESTAMP(3)) AS x {FROM}", "CAST", "unknown type TIMESTAMP(3)"),
    ("SELECT a.k FROM wide a JOIN wide b USING () WINDOW 1 DAY", ")", "unexpected )"),
    ("SELECT a.k FROM wide a JOIN wide b USING k WINDOW 1 DAY", "k WINDOW", "unexpected k"),
    ("SELECT a.x FROM wide a JOIN wide b USING (a.k) WINDOW 1 DAY", ".k)", "unexpected ."),
    ("SELECT k wide WHERE EXISTS (SELECT b.k FROM wide b) WINDOW 1 DAY", "SELECT", "no FROM"),
    ("SELECT k - wide NATURAL CROSS JOIN wide b WINDOW 1 DAY", "SELECT", "no FROM"),
    # clauses
    ("SELECT a.k FROM wide a GROUP BY a.k WINDOW 1 DAY", "GROUP BY", "GROUP BY is not supported"),
    ("SELECT a.k FROM wide a HAVING a.k > 1 WINDOW 1 DAY", "HAVING", "HAVING is not supported"),
    ("SELECT DISTINCT a.k FROM wide a WINDOW 1 DAY", "DISTINCT", "DISTINCT is not supported"),
    ("SELECT a.k FROM wide a\nORDER BY a.k WINDOW 1 DAY", "ORDER BY", "has no last result"),
    ("SELECT a.k FROM wide a SORT BY a.k WINDOW 1 DAY", "SORT BY", "SORT BY is not supported"),
    ("SELECT a.k FROM wide a LIMIT 3 WINDOW 1 DAY", "LIMIT", "LIMIT is not supported"),
    ("SELECT a.k FROM wide a QUALIFY a.k > 1 WINDOW 1 DAY", "QUALIFY", "QUALIFY is not supported"),
    ("SELECT a.k FROM wide TABLESAMPLE (5 PERCENT) a WINDOW 1 DAY", "TABLESAMPLE", "TABLESAMPLE is not supported"),
    ("SELECT * FROM wide PIVOT (sum(x) FOR y IN (1, 2)) WINDOW 1 DAY", "PIVOT", "PIVOT is not supported"),
    ("WITH c AS (SELECT DISTINCT k FROM wide) SELECT c.k FROM c WINDOW 1 DAY", "DISTINCT", "DISTINCT is not"),
    (
        "WITH c AS (SELECT a.k FROM wide a, wide b WHERE a.k = b.k) SELECT a.k FROM wide a WHERE EXISTS (SELECT 1"
        " FROM c WHERE c.k = a.k) WINDOW 1 DAY",
        "SELECT 1",
        "the subquery of EXISTS reads more than one stream",
    ),
    ("SELECT a.k FROM wide a UNION ALL SELECT b.k FROM wide b WINDOW 1 DAY", "UNION", "one query for each SELECT"),
    ("SELECT a.k FROM wide a EXCEPT SELECT b.k FROM wide b WINDOW 1 DAY", "EXCEPT", "EXCEPT is not supported"),
    ("SELECT a.k FROM wide a LATERAL VIEW explode(a.arr) e WINDOW 1 DAY", "LATERAL", "LATERAL VIEW"),
    ("SELECT * EXCEPT (k) FROM wide a WINDOW 1 DAY", "*", "list the columns"),
    ("INSERT INTO wide SELECT 1", "INSERT", "INSERT is not a SELECT"),
    ("SELECT a.k FROM wide [UNBOUNDED] a; SELECT 2", "SELECT 2", "a query has one SELECT"),
    # joins
    ("SELECT a.k FROM wide a JOIN wide b ON a.k = c.k, wide c WHERE b.k = c.k WINDOW 1 DAY", "c.k,", "unknown alias c"),
    ("SELECT a.k FROM (wide a, wide b) JOIN wide c ON a.k = c.k WINDOW 1 DAY", ",", "a comma between tables in paren"),
    (
        "SELECT a.k FROM wide a LEFT JOIN (wide b JOIN wide c ON b.k = c.k) ON a.k = b.k WINDOW 1 DAY",
        "c ON",
        "LEFT JOIN has more than one stream on its right",
    ),
    (
        "SELECT a.k FROM wide a WHERE EXISTS (SELECT z FROM wide b WHERE b.k = a.k) WINDOW 1 DAY",
        "z",
        "b (stream wide) has no column z",
    ),
    ("SELECT a.k FROM wide a FULL OUTER JOIN wide b ON a.k = b.k WINDOW 1 DAY", "FULL OUTER JOIN", "write two queries"),
    ("SELECT a.k FROM wide a NATURAL JOIN wide b WINDOW 1 DAY", "NATURAL JOIN", "cannot compare MAP"),
    ("SELECT a.k FROM wide a, LATERAL (SELECT 1) b WINDOW 1 DAY", "LATERAL", "FROM accepts no lateral"),
    ("SELECT a.k FROM wide a, wide b WINDOW 1 DAY", "b WINDOW", "nothing joins b to a"),
    ("SELECT a.k FROM wide a JOIN wide b WINDOW 1 DAY", "b WINDOW", "write CROSS JOIN if you want every pair"),
    ("SELECT a.k FROM wide a, wide b, wide c WHERE a.k = b.k WINDOW 1 DAY", "c WHERE", "nothing joins c to a"),
    ("SELECT a.k FROM wide a, wide b WHERE a.k + b.k WINDOW 1 DAY", "a.k + b.k", "is INT, not BOOLEAN"),
    ("SELECT a.k FROM wide a, wide b WHERE a.k < b.arr WINDOW 1 DAY", "a.k < b.arr", "cannot compare"),
    ("SELECT a.k FROM wide a CROSS JOIN wide b, wide c WINDOW 1 DAY", "c WINDOW", "nothing joins c to a"),
    (
        "SELECT a.k FROM wide a, wide b, wide c WHERE a.k + b.k < c.k AND a.k = b.k AND b.k = c.k WINDOW 1 DAY",
        "a.k + b.k < c.k",
        "reads 3 aliases: a, b, c",
    ),
    ("SELECT a.k FROM wide a, wide b WHERE a.k = b.st WINDOW 1 DAY", "a.k = b.st", "cannot compare INT with STRUCT"),
    (
        "SELECT a.k FROM wide a, wide b WHERE (a.x, a.y) = (b.x, b.y) WINDOW 1 DAY",
        "a.x, a.y",
        "tuples are not supported",
    ),
    (
        f"SELECT json_serialize_plan('select 1') AS r {FROM}",
        "json_serialize_plan",
        "json_serialize_plan is not",
    ),
    (f"SELECT list_value(a.x) AS r {FROM}", "list_value", "is not supported"),
    (f"SELECT a.x | a.y & 1 AS r {FROM}", "a.x | a.y & 1", "this needs parentheses"),
    (f"SELECT a.x RLIKE 'a' AS r {FROM}", "a.x RLIKE", "a STRING is needed here, not INT"),
    (f"SELECT a.n RLIKE '(?i)a' AS r {FROM}", "a.n RLIKE", "the regular expression '(?i)a' is not supported"),
    (f"SELECT a.n LIKE 'a%' ESCAPE '%' AS r {FROM}", "a.n LIKE", "cannot be the escape character of LIKE"),
    (f"SELECT a.n LIKE '%\\\\' AS r {FROM}", "a.n LIKE", "stands before nothing to escape"),
    (f"SELECT CAST(a.d AS STRING) AS r {FROM}", "CAST(a.d", "a conversion of DOUBLE to STRING is not supported"),
    (f"SELECT round(a.d, a.x) AS r {FROM}", "round(a.d", "the number of digits has to be a constant"),
    (f"SELECT pow(a.x + 1, 2) AS r {FROM}", "pow(a.x", "an argument of pow can fail"),
    (f"SELECT pow(2, 10) AS r {FROM}", "pow(2", "of constants is not computed"),
    (f"SELECT pow(a.n, 2) AS r {FROM}", "pow(a.n", "an argument of pow is STRING; it has to be a number"),
    (f"SELECT exp(sqrt(ln(a.d))) AS r {FROM}", "exp(", "inside of one that it does not"),
    (f"SELECT exp(a.d) {FROM}", "exp(", "a computed output needs a name"),
    (f"SELECT split(a.n, a.n) AS r {FROM}", "split(", "the pattern has to be a constant"),
    (
        "SELECT a.k FROM wide a, wide b WHERE a.k = b.k AND atan2(a.d, b.d) > 1 WINDOW 1 DAY",
        "atan2(",
        "select the columns and compute it where results are read",
    ),
    (f"SELECT a.de / a.de AS r {FROM}", "a.de / a.de", "a quotient of decimals is not supported"),
    (f"SELECT repeat(a.n, 1000000000) AS r {FROM}", "1000000000", "repeat is asked for a size of 1000000000"),
    (f"SELECT repeat(a.n, 1000) AS r {FROM}", "repeat(", "a whole number from"),
    (f"SELECT date_format(a.ts, 'EEEEE') AS r {FROM}", "date_format(", "the format 'EEEEE' is not supported"),
    (f"SELECT NULL AS r {FROM}", "", "NULL alone has no type"),
    (f"SELECT a.st.g AS r {FROM}", "a.st.g", "has no field g"),
    (f"SELECT a.k.g AS r {FROM}", "a.k.g", "only a STRUCT has fields"),
    ("SELECT a.k FROM wide a, wide b WHERE a.arr = b.arr WINDOW 1 DAY", "a.arr = b.arr", "ARRAY<INT>"),
    # subqueries
    ("SELECT a.k FROM (SELECT k, count(*) AS n FROM wide GROUP BY k) a WINDOW 1 DAY", "count", "needs a window with"),
    ("SELECT a.k FROM (SELECT k FROM wide UNION SELECT x FROM wide) a WINDOW 1 DAY", "UNION", "UNION is not supported"),
    ("SELECT a.k FROM (SELECT k FROM wide LIMIT 1) a WINDOW 1 DAY", "LIMIT", "LIMIT is not supported"),
    (
        "SELECT t.z FROM wide a LEFT JOIN (SELECT k, x + 1 AS z FROM wide b) t ON a.k = t.k WINDOW 1 DAY",
        "t.z",
        "computed by a subquery whose row may be missing",
    ),
    ("SELECT a.k FROM wide a WHERE a.k IN (SELECT 1) WINDOW 1 DAY", "SELECT 1", "subqueries are not supported"),
    ("SELECT a.k FROM wide a WHERE EXISTS (SELECT 1) WINDOW 1 DAY", "SELECT 1", "subqueries are not supported"),
    ("SELECT (SELECT 1) AS one FROM wide a WINDOW 1 DAY", "SELECT 1", "subqueries are not supported"),
    ("SELECT a.k FROM wide a JOIN (SELECT 1 AS k) t ON a.k = t.k WINDOW 1 DAY", "SELECT 1", "no FROM"),
    ("WITH t AS (SELECT 1 AS k) SELECT a.k FROM wide a, t WHERE a.k = t.k WINDOW 1 DAY", "SELECT 1", "no FROM"),
    (
        "SELECT a.k FROM wide a WHERE EXISTS (WITH t AS (SELECT 1 AS k) SELECT 2 FROM t) WINDOW 1 DAY",
        "SELECT 1",
        "no FROM",
    ),
    (
        "SELECT t.k, count(*) AS c FROM (SELECT 1 AS k) t JOIN wide a ON a.k = t.k"
        " GROUP BY t.k, window(result_time(), '1 minute') WINDOW 1 DAY",
        "SELECT 1",
        "no FROM",
    ),
    # names
    ("SELECT a.k FROM wilde a WINDOW 1 DAY", "wilde", "did you mean wide?"),
    ("SELECT a.k FROM nothing a WINDOW 1 DAY", "nothing", "Streams: items, orders, wide."),
    ("SELECT a.k FROM db.wide a WINDOW 1 DAY", "db.wide", "is not the name of a stream"),
    (f"SELECT a.kk {FROM}", "a.kk", "Columns of a: k, x, y"),
    (f"SELECT a.k, z {FROM}", "z", "has no column z"),
    (f"SELECT b.k {FROM}", "b.k", "unknown alias b"),
    (f"SELECT b.* {FROM}", "b", "Aliases: a."),
    ("SELECT k FROM wide a, wide b WHERE a.k = b.k WINDOW 1 DAY", "k FROM", "Aliases that have it: a, b."),
    ("SELECT a.k FROM wide a, wide A WHERE a.k = 1 WINDOW 1 DAY", "A WHERE", "alias A is used twice"),
    ("SELECT a.k FROM wide a JOIN items b USING (k) WINDOW 1 DAY", "k) WINDOW", "b (stream items) has no column k"),
    ("SELECT 1 AS c FROM wide `a.b` WINDOW 1 DAY", "`a.b`", "cannot be the name of a alias"),
    (f"SELECT a.k, a.x AS K {FROM}", "K FROM", "two outputs are named K"),
    (f"SELECT a.k + 1 {FROM}", "a.k + 1", "a computed output needs a name"),
    ("SELECT * FROM (SELECT a.k + 1 FROM wide a) t WINDOW 1 DAY", "* FROM", "a computed output needs a name"),
    # scalar expressions
    (f"SELECT sum(a.x) AS s {FROM}", "sum(a.x)", "aggregate function sum needs a window with SLIDE or TUMBLE"),
    (f"SELECT approx_count_distinct(a.x) AS s {FROM}", "approx_count", "needs a window with SLIDE or TUMBLE"),
    (f"SELECT first(a.x) AS s {FROM}", "first(a.x)", "first is not supported: its result depends on the order"),
    (f"SELECT rank() OVER (ORDER BY a.x) AS r {FROM}", "rank()", "window functions (OVER)"),
    (f"SELECT rand() AS r {FROM}", "rand", "function rand is not deterministic"),
    (f"SELECT uuid() AS r {FROM}", "uuid", "function uuid is not deterministic"),
    (f"SELECT now() AS r {FROM}", "now", "function now is not deterministic"),
    (
        "SELECT a.k FROM wide a WHERE a.ts < current_timestamp WINDOW 1 DAY",
        "current_timestamp",
        "must not depend on when",
    ),
    ("SELECT a.k FROM wide a WHERE a.ts < current_date() WINDOW 1 DAY", "current_date", "is not deterministic"),
    (f"SELECT unix_timestamp() AS r {FROM}", "", "is not deterministic"),
    (f"SELECT lenght(a.n) AS r {FROM}", "lenght(a.n)", "did you mean length?"),
    (f"SELECT conv(a.n, 10, 16) AS r {FROM}", "conv(a.n", "function conv is not supported"),
    (f"SELECT explode(a.arr) AS r {FROM}", "explode(a.arr)", "table function explode is not supported"),
    (f"SELECT convert_timezone('CET', a.ts) AS r {FROM}", "convert_timezone", "every time is UTC"),
    (f"SELECT from_utc_timestamp(a.ts, 'Utopia/Here') AS r {FROM}", "from_utc_timestamp", "'Utopia/Here' is not known"),
    (f"SELECT a.ts - a.tn AS r {FROM}", "a.ts - a.tn", "an INTERVAL can be neither"),
    (f"SELECT a.x LIKE a.ts AS r {FROM}", "a.x LIKE a.ts", "a STRING is needed here, not INT"),
    ("SELECT a.k FROM wide a WHERE a.x WINDOW 1 DAY", "a.x WINDOW", "this condition is INT, not BOOLEAN"),
    ("SELECT a.k FROM wide a WHERE a.ts > 'soon' WINDOW 1 DAY", "a.ts > 'soon'", "'soon' is not a TIMESTAMP"),
    ("SELECT a.k FROM wide a WHERE a.x = ? WINDOW 1 DAY", "", "parameters are not supported"),
    # syntax
    ("", "", "query q is empty"),
    ("SELECT", "SELECT", "no FROM"),
    ("SELECT 1 AS c", "SELECT", "no FROM"),
    (f"SELECT a.k y z {FROM}", "z", "unexpected z"),
    ("SELECT a.k FROM wide a WHERE WINDOW 1 DAY", "WHERE", "something is missing at WHERE"),
    ("SELECT a.k FROM wide a WHERE (a.k = 1 WINDOW 1 DAY", "", "line 1"),
    (f"SELECT 'open {FROM}", "'", "never closed"),
]


@pytest.mark.parametrize(("sql", "points_at", "fragment"), CASES)
def test_unsupported(query: Build, sql: str, points_at: str, fragment: str) -> None:
    with pytest.raises(SqlError) as caught:
        query(sql)
    assert fragment in str(caught.value)
    place = caught.value.place
    assert place is not None
    if points_at:
        assert sql[place.start :].startswith(points_at), caught.value
        assert place.end > place.start


def test_names_that_stand_for_names_do_not_make_an_expression_of_any_length(query: Build) -> None:
    """These would have more than 10¹⁴ parts."""
    outputs = ", ".join(f"o{number} + o{number} AS o{number + 1}" for number in range(48))
    nested = "wide a"
    for number in range(48):
        nested = f"(SELECT o + o AS o FROM {nested}) AS t{number}" if number else "(SELECT k AS o FROM wide a) AS t"
    for sql in (f"SELECT a.k AS o0, {outputs} {FROM}", f"SELECT o FROM {nested} WINDOW 1 DAY"):
        with pytest.raises(SqlError, match="this expression is too long"):
            query(sql)


def test_every_error_has_what_to_do_or_what_exists(query: Build) -> None:
    for sql, _, _ in CASES:
        with pytest.raises(SqlError) as caught:
            query(sql)
        assert caught.value.hint or caught.value.detail, sql


def test_line_and_column(query: Build) -> None:
    with pytest.raises(SqlError) as caught:
        query("SELECT a.k\nFROM wide a [RANGE\n 1 DAY]\nWHERE a.k > 1\n  AND a.zz = 3")
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (5, 7)
    assert caught.value.place.picture().endswith("^^^^")
