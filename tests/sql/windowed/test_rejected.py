"""What a windowed query may not say: each case with the place it points at and a fragment of the message."""

from __future__ import annotations

import pytest

from tests.sql.windowed.conftest import Build
from watersmeet.errors import SqlError

W = "[RANGE 1 HOUR SLIDE 1 MINUTE]"
CASES = [
    # stars and commas
    (f"SELECT coalesce(*) AS x FROM bids {W}", "*", "* is not supported inside of an expression"),
    (f"SELECT coalesce(b.*) AS x FROM bids {W} b", "b.*", "* is not supported inside of an expression"),
    (f"SELECT count(*, n) AS x FROM bids {W}", "*", "count(*) counts rows"),
    (f"SELECT count(b.*) AS x FROM bids {W} b", "b.*", "count(*) counts rows"),
    (f"SELECT max(*) AS x FROM bids {W}", "max(*)", "max of * means nothing"),
    (f"SELECT n FROM bids {W} WHERE n IN (*)", "*", "* is not supported inside of an expression"),
    (f"SELECT n FROM bids {W} GROUP BY *", "*", "* is not supported inside of an expression"),
    (f"SELECT n FROM bids {W} ORDER BY *", "*", "* is not supported inside of an expression"),
    (f"SELECT sum(n) OVER (PARTITION BY *) AS x FROM bids {W}", "*", "* is not supported inside of an expression"),
    (f"SELECT * AS x FROM bids {W}", "*", "* is not supported inside of an expression"),
    (f"SELECT n, FROM bids {W}", ",", "unexpected ,"),
    (f"SELECT n FROM bids {W}, WHERE n > 1", ", WHERE", "unexpected ,"),
    (f"SELECT n FROM bids {W} GROUP BY n,", ",", "unexpected ,"),
    (f"SELECT n FROM bids {W} ORDER BY n,", ",", "unexpected ,"),
    (f"SELECT coalesce(n,) AS x FROM bids {W}", ",)", "unexpected ,"),
    (f"SELECT n FROM bids {W} WHERE n IN (1,)", ",)", "unexpected ,"),
    (f"SELECT n FROM bids {W} GROUP BY ALL n", "GROUP BY", "GROUP BY ALL or DISTINCT with columns is not"),
    (f"SELECT CAST(n AS Nullable(INT)) AS x FROM bids {W}", "CAST", "is not supported"),
    # what other dialects have, and what the parser would rewrite
    (f"FROM bids {W} |> SELECT DISTINCT n |> LIMIT 1", "|>", "pipe syntax is not supported"),
    (f"SELECT n FROM bids {W} |> UNION ALL SELECT id FROM auctions {W}", "|>", "pipe syntax is not supported"),
    (f"SELECT coalesce() AS x FROM bids {W}", "coalesce", "takes 1 or more arguments and has 0"),
    (f"SELECT kind LIKE ANY 'a' AS x FROM bids {W}", "kind", "this LIKE is not supported"),
    (f"SELECT n FROM bids {W} JOIN auctions {W} USING ()", ")", "unexpected )"),
    (f"SELECT n FROM bids {W} ORDER BY n LIMIT 1 UNION ALL SELECT 1", "ORDER", "ORDER stands before a set operation"),
    (f"WITH q AS (SELECT n FROM bids {W}), Q AS (SELECT 1) SELECT * FROM q", "Q AS", "WITH has Q twice"),
    (f"SELECT n FROM bids {W} LIMIT 2147483648", "LIMIT", "LIMIT 2147483648 is no INT"),
    (f"SELECT n FROM bids {W} FETCH FIRST 3 ROWS ONLY", "FETCH", "FETCH is not supported"),
    # columns of the query around a subquery
    (
        f"SELECT b.n FROM bids {W} b WHERE b.n = (SELECT max(b.n) FROM auctions {W})",
        "b.n)",
        "n belongs to the query around this subquery, and max(…) cannot read it",
    ),
    (f"SELECT (SELECT max(b.n + id) FROM auctions {W}) AS m FROM bids {W} b", "b.n +", "max(…) cannot read it"),
    (f"SELECT (SELECT max(id) + b.n FROM auctions {W}) AS m FROM bids {W} b", "b.n FROM", "a SELECT with aggregates"),
    (f"SELECT n FROM bids {W} b WHERE n IN (SELECT DISTINCT b.n FROM auctions {W})", "b.n FROM", "or DISTINCT cannot"),
    (
        f"SELECT n FROM bids {W} b WHERE EXISTS (SELECT 1 FROM auctions {W} HAVING max(b.n) > 1)",
        "b.n)",
        "max(…) cannot read it",
    ),
    (
        f"SELECT (SELECT id FROM auctions {W} ORDER BY b.n LIMIT 1) AS i FROM bids {W} b",
        "b.n LIMIT",
        "ORDER BY cannot read it",
    ),
    (
        f"SELECT n FROM bids {W} b WHERE n IN (SELECT sum(id) OVER (PARTITION BY b.n) FROM auctions {W})",
        "b.n)",
        "sum(…) OVER cannot read it",
    ),
    (
        f"SELECT n, (SELECT max(id) FROM auctions {W} WHERE id = b.n) AS m FROM bids {W} b GROUP BY n",
        "SELECT max",
        "cannot stand in what a query with aggregates or GROUP BY selects",
    ),
    (
        f"SELECT n FROM bids {W} b ORDER BY (SELECT max(id) FROM auctions {W} WHERE id = b.n) LIMIT 1",
        "SELECT max",
        "cannot stand in ORDER BY",
    ),
    # numbers of windows
    (
        "SELECT count(*) AS c FROM bids [RANGE 1 HOUR SLIDE 1 MICROSECOND]",
        "[RANGE",
        "each row is in 3,600,000,000 windows of query q; the limit is 100,000",
    ),
    (
        "SELECT count(*) AS c FROM bids WINDOW RANGE 1 HOUR SLIDE 1 MICROSECOND",
        "WINDOW",
        "raise the option max_windows",
    ),
    (
        "SELECT count(*) AS c FROM bids GROUP BY window(at, '1 hour', '1 microsecond')",
        "window",
        "each row is in 3,600,000,000 windows",
    ),
    # grids
    ("SELECT n FROM bids [UNBOUNDED SLIDE 1 MINUTE]", "[UNBOUNDED", "UNBOUNDED windows never end"),
    ("SELECT n FROM bids [RANGE UNBOUNDED SLIDE 1 MINUTE]", "UNBOUNDED", "not a duration"),
    ("SELECT n FROM bids [RANGE 1 MINUTE SLIDE 1 HOUR]", "SLIDE 1 HOUR", "make SLIDE as long as RANGE or shorter"),
    ("SELECT n FROM bids [RANGE 1 MINUTE SLIDE 0 SECONDS]", "SLIDE 0", "SLIDE must be above 0"),
    ("SELECT n FROM bids [RANGE 1 MINUTE SLIDE -1 SECONDS]", "-1 SECONDS", "not a duration"),
    ("SELECT n FROM bids [RANGE 1 MINUTE SLIDE]", "SLIDE", "not a duration"),
    ("SELECT n FROM bids [TUMBLE 0 SECONDS]", "[TUMBLE", "a window of length 0"),
    ("SELECT n FROM bids [TUMBLE 1 MINUTE SLIDE 1 SECOND]", "SLIDE", "TUMBLE has no SLIDE"),
    ("SELECT n FROM bids [TUMBLE 1 MONTH]", "1 MONTH", "a month has no fixed length"),
    ("SELECT n FROM bids [TUMBLE 1 MINUTE] b [TUMBLE 1 MINUTE]", "[TUMBLE 1 MINUTE]", "two windows"),
    (f"SELECT n [TUMBLE 1 MINUTE] FROM bids {W}", "[TUMBLE", "belongs to no stream"),
    (f"SELECT b.n FROM bids {W} b, auctions a WHERE b.auction = a.id", "a WHERE", "alias a has no window"),
    (
        f"SELECT b.n FROM bids {W} b, auctions [TUMBLE 1 HOUR] a WHERE b.auction = a.id",
        "[TUMBLE",
        "the same RANGE and SLIDE",
    ),
    (
        f"SELECT b.n FROM bids {W} b, auctions [RANGE 1 HOUR] a WHERE b.auction = a.id",
        "[RANGE 1 HOUR]",
        "without SLIDE in a windowed query",
    ),
    (
        f"SELECT b.n FROM bids {W} b, auctions [UNBOUNDED] a WHERE b.auction = a.id",
        "[UNBOUNDED]",
        "without SLIDE in a windowed query",
    ),
    ("SELECT n FROM bids WHERE n > (SELECT max(id) FROM auctions [TUMBLE 1 DAY])", "bids", "alias bids has no window"),
    # window(…)
    ("SELECT count(*) AS n FROM bids b GROUP BY window(b.day, '1 hour')", "b.day", "Event times: b.at."),
    ("SELECT count(*) AS n FROM bids b GROUP BY window(b.at)", "window", "takes 2 or 3 arguments"),
    ("SELECT count(*) AS n FROM bids b GROUP BY window(b.at, '1 hour', '2 hours')", "window", "slide above 0"),
    ("SELECT count(*) AS n FROM bids b GROUP BY window(b.at, 5)", "5", "is a string"),
    ("SELECT count(*) AS n FROM bids b GROUP BY window(b.at, 'an hour')", "'an hour'", "an is not a number"),
    (
        "SELECT count(*) AS n FROM bids b GROUP BY window(b.at, '1 hour', '1 hour', '5 minutes')",
        "'5 minutes'",
        "windows begin at 1970-01-01",
    ),
    (
        "SELECT count(*) AS n FROM bids b GROUP BY window(b.at, '1 hour'), window(b.at, '1 minute')",
        "window(b.at, '1 minute'",
        "one RANGE and one SLIDE",
    ),
    (f"SELECT count(*) AS n FROM bids {W} b GROUP BY window(b.at, '1 hour')", "window", "one RANGE and one SLIDE"),
    (
        "SELECT count(*) AS n FROM bids [RANGE 1 HOUR] b GROUP BY window(b.at, '1 hour')",
        "[RANGE 1 HOUR]",
        "window(result_time(), …)",
    ),
    (
        "SELECT count(*) AS n FROM bids b JOIN auctions a ON b.auction = a.id GROUP BY window(b.at, '1 hour')",
        "b JOIN",
        "only for a query that reads one stream once",
    ),
    ("SELECT window(b.at, '1 hour') AS w FROM bids b", "window", "use window_start and window_end"),
    (f"SELECT window.middle FROM bids {W} b", "window.middle", "use window_start and window_end"),
    # aggregates over continuous joins
    (
        f"SELECT count(*) AS n FROM bids {W} b GROUP BY window(result_time(), '1 minute')",
        W,
        "whose windows have no SLIDE",
    ),
    (
        "SELECT result_time() AS t FROM bids [RANGE 1 HOUR] b GROUP BY window(result_time(), '1 minute')",
        "result_time()",
        "belongs into window",
    ),
    (
        "SELECT count(DISTINCT n) AS c FROM bids [RANGE 1 HOUR] b GROUP BY window(result_time(), '1 minute')",
        "SELECT",
        "has to combine: count(DISTINCT …)",
    ),
    (
        "SELECT b.n FROM bids [RANGE 1 HOUR] b LEFT JOIN auctions [RANGE 1 HOUR] a ON b.auction = a.id"
        " GROUP BY b.n, window(result_time(), '1 minute')",
        "LEFT JOIN",
        "only inner joins",
    ),
    # names
    (f"SELECT x FROM bids {W} b", "x", "b (stream bids) has no column x"),
    (f"SELECT c.n FROM bids {W} b", "c.n", "Aliases: b."),
    (f"SELECT n FROM bidz {W} b", "bidz", "did you mean bids?"),
    (f"SELECT name FROM auctions {W} a, persons {W} p", "name", "write a.name or p.name"),
    (f"SELECT n FROM bids {W} b, auctions {W} b", "b", "alias b is used twice"),
    (f"SELECT n AS x, price AS X FROM bids {W}", "X", "two outputs are named X"),
    (f"SELECT n + 1 FROM bids {W}", "n + 1", "a computed output needs a name"),
    (f"SELECT d.x FROM (SELECT n AS x, price AS x FROM bids {W}) d", "d.x", "column x is ambiguous"),
    (f"SELECT d.x FROM (SELECT n FROM bids {W}) d(x, y)", "x, y", "1 columns and 2 names"),
    (f"SELECT id FROM auctions {W} JOIN bids {W} USING (id)", "id)", "bids (stream bids) has no column id"),
    (
        f"SELECT n FROM bids {W} b WHERE EXISTS (SELECT 1 FROM auctions {W} a WHERE EXISTS"
        f" (SELECT 1 FROM persons {W} p WHERE p.id = b.bidder))",
        "b.bidder",
        "two levels up",
    ),
    # groups
    (f"SELECT kind, price FROM bids {W} GROUP BY kind", "price", "neither in GROUP BY nor in an aggregate"),
    (f"SELECT kind, count(*) AS c FROM bids {W}", "kind", "add it to GROUP BY"),
    (f"SELECT max(n) AS m FROM bids {W} GROUP BY count(*)", "count(*)", "GROUP BY has an aggregate"),
    (f"SELECT max(n) AS m FROM bids {W} GROUP BY 3", "3", "GROUP BY 3: there are 1 outputs"),
    (f"SELECT max(n) AS x FROM bids {W} GROUP BY x", "x", "GROUP BY has an aggregate"),
    (f"SELECT m FROM bids {W} GROUP BY m", "m", "GROUP BY MAP<STRING,INT> is not supported"),
    (f"SELECT n FROM bids {W} WHERE max(n) > 1", "max(n)", "WHERE has an aggregate"),
    (f"SELECT max(max(n)) AS m FROM bids {W}", "max(max(n))", "an aggregate inside of an aggregate"),
    (f"SELECT kind FROM bids {W} GROUP BY kind HAVING max(n)", "max(n)", "is INT, not BOOLEAN"),
    (
        f"SELECT kind, (SELECT max(id) FROM auctions {W} WHERE id = b.n) AS x FROM bids {W} b GROUP BY kind",
        "b.n",
        "neither in GROUP BY",
    ),
    (f"SELECT n FROM bids {W} GROUP BY ROLLUP (n)", "ROLLUP", "ROLLUP is not supported"),
    (f"SELECT n FROM bids {W} GROUP BY GROUPING SETS ((n), ())", "GROUPING", "GROUPING is not supported"),
    (f"SELECT n FROM bids {W} GROUP BY n WITH CUBE", "CUBE", "CUBE is not supported"),
    (f"SELECT DISTINCT n FROM bids {W} ORDER BY price", "price", "ORDER BY takes outputs only"),
    (f"SELECT DISTINCT m FROM bids {W}", "SELECT", "DISTINCT with an output of type MAP"),
    (f"SELECT m FROM bids {W} LIMIT 3", "SELECT", "LIMIT with an output of type MAP"),
    (f"SELECT n FROM bids {W} ORDER BY 2", "2", "ORDER BY 2: there are 1 outputs"),
    (f"SELECT n FROM bids {W} LIMIT n", "LIMIT", "LIMIT needs a whole number"),
    # aggregates
    (f"SELECT first(n) AS m FROM bids {W}", "first(n)", "depends on the order of rows"),
    (f"SELECT collect_list(n) AS m FROM bids {W}", "collect_list(n)", "depends on the order of rows"),
    (f"SELECT mode(n) AS m FROM bids {W}", "mode(n)", "depends on chance"),
    (f"SELECT sum(kind) AS m FROM bids {W}", "sum(kind)", "sum needs a number, not STRING"),
    (f"SELECT sum(*) AS m FROM bids {W}", "sum(*)", "sum of * means nothing"),
    (f"SELECT sum(n, d) AS m FROM bids {W}", "sum(n, d)", "sum does not take 2 arguments"),
    (f"SELECT stddev(DISTINCT n) AS m FROM bids {W}", "stddev(DISTINCT n)", "DISTINCT is not supported in stddev"),
    (f"SELECT max(m) AS x FROM bids {W}", "max(m)", "max of MAP<STRING,INT> is not supported"),
    (f"SELECT percentile(n, 2) AS m FROM bids {W}", "percentile(n, 2)", "a constant from 0 to 1"),
    (f"SELECT percentile(n, array(2)) AS m FROM bids {W}", "percentile", "shares from 0 to 1"),
    (f"SELECT percentile_approx(n, 0.5, d) AS m FROM bids {W}", "percentile_approx", "a constant above 0"),
    (f"SELECT approx_count_distinct(n, 0.9) AS m FROM bids {W}", "approx_count_distinct", "from 0.01 to 0.39"),
    (f"SELECT count_if(n) AS m FROM bids {W}", "count_if(n)", "needs a BOOLEAN"),
    (f"SELECT abs(n) FILTER (WHERE n > 1) AS m FROM bids {W}", "abs(n)", "FILTER without an aggregate"),
    (f"SELECT sum(n) FILTER (WHERE n) AS m FROM bids {W}", "n)", "is INT, not BOOLEAN"),
    # functions and clauses
    (f"SELECT row_number() OVER (ORDER BY n) AS m FROM bids {W}", "row_number", "use rank() or dense_rank()"),
    (f"SELECT rank() OVER (PARTITION BY n) AS m FROM bids {W}", "rank()", "needs ORDER BY"),
    (f"SELECT first(n) OVER (ORDER BY n) AS m FROM bids {W}", "first(n)", "depends on the order of rows"),
    (f"SELECT sum(DISTINCT n) OVER () AS m FROM bids {W}", "sum(DISTINCT n)", "DISTINCT with OVER is not supported"),
    (f"SELECT sum(n) OVER (ORDER BY n ROWS 2 PRECEDING) AS m FROM bids {W}", "sum(n)", "leave out ROWS and RANGE"),
    (f"SELECT n FROM bids {W} WHERE rank() OVER (ORDER BY n) < 3", "rank()", "OVER inside of WHERE"),
    (f"SELECT n FROM bids {W} GROUP BY n HAVING rank() OVER (ORDER BY n) < 3", "rank()", "OVER inside of HAVING"),
    (f"SELECT max(rank() OVER (ORDER BY n)) AS m FROM bids {W}", "rank()", "OVER inside of another function"),
    (f"SELECT kind, sum(n) OVER () AS m FROM bids {W} GROUP BY kind", "n", "neither in GROUP BY"),
    (f"SELECT sum(n) OVER (PARTITION BY m) AS s FROM bids {W}", "m", "is not supported"),
    (f"SELECT explode(arr) AS e FROM bids {W}", "explode(arr)", "table function explode"),
    (f"SELECT rand() AS r FROM bids {W}", "rand", "not deterministic"),
    (f"SELECT current_timestamp() AS r FROM bids {W}", "current_timestamp", "not deterministic"),
    (f"SELECT foo(n) AS r FROM bids {W}", "foo(n)", "function foo is not supported"),
    (f"SELECT session_window(at, '1 hour') AS r FROM bids {W}", "session_window", "is not supported"),
    (f"SELECT struct(n, d) AS r FROM bids {W}", "struct", "is not supported"),
    (f"SELECT n FROM bids {W} LATERAL VIEW explode(arr) e", "LATERAL", "LATERAL VIEW is not supported"),
    (f"SELECT n FROM bids {W} TABLESAMPLE (5 PERCENT)", "TABLESAMPLE", "TABLESAMPLE is not supported"),
    (f"SELECT n FROM bids {W} SORT BY n", "SORT", "SORT BY is not supported"),
    (f"SELECT n FROM range(10) r, bids {W} b", "range", "no table function"),
    (f"SELECT * EXCEPT (n) FROM bids {W}", "*", "list the columns"),
    (f"SELECT n FROM bids {W} b RIGHT SEMI JOIN auctions {W} a ON true", "RIGHT SEMI", "RIGHT SEMI JOIN is not"),
    (f"SELECT n FROM bids {W} b JOIN auctions {W} a ON max(n) > 1", "max(n)", "ON has an aggregate"),
    (
        f"SELECT n FROM bids {W} b JOIN auctions {W} a ON n IN (SELECT id FROM persons {W})",
        "n IN",
        "ON has a subquery",
    ),
    ("SELECT 1 AS x WINDOW TUMBLE 1 DAY", "SELECT", "this SELECT has no FROM"),
    (f"SELECT n AS x FROM bids {W}; SELECT 2", "SELECT 2", "a query has one SELECT"),
    (f"SELECT CAST(at AS BOOLEAN) AS x FROM bids {W}", "CAST", "conversion of TIMESTAMP to BOOLEAN"),
    (f"SELECT NULL AS x FROM bids {W}", "SELECT NULL", "NULL alone has no type"),
    (f"SELECT at - window_start AS x FROM bids {W}", "at - window_start", "an INTERVAL can be neither"),
    (f"SELECT n AS `${{env:HOME}}` FROM bids {W}", "SELECT", "a name with ${ is not supported"),
    # subqueries and set operations
    (f"SELECT (SELECT n FROM bids {W}) AS x FROM bids {W}", "SELECT n", "may give more than one row"),
    (f"SELECT n FROM bids {W} WHERE n = (SELECT max(n), 1 FROM bids {W})", "SELECT max", "gives 2 columns"),
    (f"SELECT n FROM bids {W} WHERE n IN (SELECT id, name FROM persons {W})", "n IN", "gives 2 columns"),
    (f"SELECT n FROM bids {W} WHERE arr IN (SELECT id FROM persons {W})", "arr IN", "cannot compare"),
    (f"SELECT n FROM bids {W} WHERE (n, d) IN (SELECT 1, 2)", "n, d)", "tuples are not supported"),
    (f"SELECT n FROM bids {W} UNION ALL SELECT id, name FROM persons {W}", "SELECT n", "UNION ALL of 1 and 2 columns"),
    (f"SELECT n FROM bids {W} UNION ALL SELECT day FROM bids {W}", "SELECT n", "have no common type"),
    (f"SELECT m FROM bids {W} UNION SELECT m FROM bids {W}", "SELECT m", "UNION with an output of type MAP"),
]


@pytest.mark.parametrize(("sql", "place", "fragment"), CASES)
def test_rejected(sql: str, place: str, fragment: str, query: Build) -> None:
    with pytest.raises(SqlError) as caught:
        query(sql)
    assert fragment in str(caught.value)
    found = caught.value.place
    assert found is not None
    assert sql[found.start :].startswith(place) or place.startswith(sql[found.start : found.end]), sql[
        found.start : found.end
    ]
    assert caught.value.hint or caught.value.detail
