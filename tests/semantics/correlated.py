"""Subqueries that read columns of the query around them, in all places. Spark accepts some of them."""

from __future__ import annotations

_USES = (
    "SELECT l.k FROM l WHERE l.a = ({})",
    "SELECT l.k FROM l WHERE EXISTS ({})",
    "SELECT l.k FROM l WHERE l.a IN ({})",
    "SELECT l.k, ({}) AS x FROM l",
    "SELECT l.k FROM l WHERE NOT EXISTS ({})",
    "SELECT max(({})) AS x FROM l",
    "SELECT l.k FROM l GROUP BY l.k, l.a HAVING l.a = ({})",
    "SELECT l.k, l.a, ({}) AS x FROM l GROUP BY l.k, l.a",
    "SELECT l.k, count(*) AS n FROM l GROUP BY l.k HAVING EXISTS ({})",
    "SELECT l.a FROM l ORDER BY ({}), l.id LIMIT 2",
    "SELECT CASE WHEN EXISTS ({}) THEN 1 END AS x FROM l",
)
_SELECTED = (
    "r.b",
    "max(r.b)",
    "max(l.a)",
    "max(l.a + r.b)",
    "max(r.b) + max(l.a)",
    "max(r.b) + l.a",
    "l.a",
    "l.a + r.b",
    "count(*)",
    "count(l.a)",
    "DISTINCT r.b",
    "DISTINCT l.a",
    "max(max(r.b))",
    "max(max(l.a))",
    "sum(r.b) OVER ()",
    "sum(l.a) OVER ()",
    "sum(r.b) OVER (PARTITION BY l.a)",
    "max(r.b) FILTER (WHERE l.a > 0)",
    "1",
    "rank() OVER (ORDER BY l.a)",
    "count(DISTINCT l.a)",
    "(SELECT max(c) FROM m WHERE c = l.a)",
    "(SELECT max(c) FROM m WHERE c = r.b)",
    "(SELECT l.a)",
    "(SELECT max(l.a))",
    "max((SELECT max(c) FROM m WHERE c = l.a))",
)
_CLAUSES = (
    "",
    "WHERE r.b = l.a",
    "WHERE r.b < l.a",
    "WHERE l.a = 1",
    "WHERE r.b = l.a OR r.k = 1",
    "WHERE r.b + l.a = 3",
    "WHERE r.k = (SELECT max(c) FROM m WHERE m.c = r.b)",
    "WHERE r.k = (SELECT max(c) FROM m WHERE m.c = l.a)",
    "WHERE max(l.a) = r.b",
    "WHERE r.b = l.a GROUP BY r.k",
    "WHERE r.b=l.a GROUP BY l.a",
    "GROUP BY r.k HAVING max(r.b) = l.a",
    "GROUP BY r.k HAVING max(l.a) > 1",
    "HAVING max(l.a) > 1",
    "HAVING max(r.b) > l.a",
    "WHERE r.b = l.a ORDER BY l.a LIMIT 1",
    "WHERE r.b = l.a ORDER BY r.k LIMIT 1",
    "WHERE r.b < l.a LIMIT 1",
    "ORDER BY l.a LIMIT 1",
    "WHERE r.b=l.a LIMIT 1 OFFSET 1",
    "JOIN m ON m.c = l.a",
    "JOIN m ON m.c = r.b AND r.k = l.k",
    "LEFT JOIN m ON m.c = l.a",
    "LEFT JOIN m ON m.c = r.b WHERE m.k = l.a",
    "LEFT JOIN m ON m.c = r.b WHERE r.k = l.a",
    "FULL JOIN m ON m.c=r.b WHERE r.b=l.a",
    "SEMI JOIN m ON m.c = l.a",
    "WHERE r.b = l.a UNION ALL SELECT c FROM m",
    "WHERE r.b = l.a UNION SELECT c FROM m WHERE m.c = l.a",
    "WHERE EXISTS (SELECT 1 FROM m WHERE m.c = l.a)",
    "WHERE r.b IN (SELECT c FROM m WHERE m.k = r.k)",
    "WHERE r.b = l.a INTERSECT SELECT c FROM m",
    "WHERE k = a",
    "WHERE l.a IN (1, 2)",
    "WHERE l.a IS NULL AND r.b = 1",
    "WHERE r.b = l.a AND l.k = l.a",
    "WHERE coalesce(l.a, r.b) = 1",
)


def correlated_queries() -> list[str]:
    return [
        use.format(f"SELECT {selected} FROM r {clause}".strip())
        for use in _USES
        for selected in _SELECTED
        for clause in _CLAUSES
    ]
