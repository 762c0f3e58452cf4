"""Random relational queries over the streams of conftest.py: joins of every kind, set operations, subqueries, ranks.

Scalars stay simple: the semantics suite compares those. `Generator` (random_queries.py) nests FROM and expressions."""

from __future__ import annotations

import random

from tests.sql.windowed.random_queries import Generator

JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
BIDS = ("auction", "bidder", "price", "amount", "share", "kind", "d", "f", "n", "small", "ok", "day", "at", "ntz")
AUCTIONS = ("id", "category", "seller", "name", "fee", "weight", "at")
PERSONS = ("id", "name", "city")
# Columns of equal types, and of types that Spark brings to a common one
PAIRS = (
    ("b.auction", "a.id"),
    ("b.n", "a.category"),
    ("b.d", "a.weight"),
    ("b.f", "a.weight"),
    ("b.kind", "a.name"),
    ("b.small", "a.category"),
    ("b.amount", "a.fee"),
    ("b.n", "a.fee"),
    ("b.price", "a.weight"),
    ("b.at", "a.at"),
    ("b.ntz", "a.at"),
)
AGGREGATES = (
    "count(*)",
    "count({})",
    "min({})",
    "max({})",
    "count(DISTINCT {})",
    "count(DISTINCT {}, {})",
    "count_if({} IS NULL)",
    "bool_or({} IS NULL)",
    "min({}) FILTER (WHERE {} IS NOT NULL)",
)
SUMMED = ("sum({})", "avg({})", "sum(DISTINCT {})", "avg(DISTINCT {})", "sum({} * 2)", "sum({}) / count(*)")
NUMBERS = ("b.price", "b.amount", "b.share", "b.d", "b.f", "b.n", "b.small")


class Relational:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._nested = Generator(seed)

    def query(self) -> str:
        made = self._chance.choice(
            [
                self._joined,
                self._joined,
                self._grouped,
                self._grouped,
                self._set,
                self._subquery,
                self._subquery,
                self._ranked,
                self._limited,
                self._nested.query,
            ]
        )
        return made()

    def _one(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _some(self, known: tuple[str, ...], most: int) -> list[str]:
        return self._chance.sample(known, self._chance.randint(1, most))

    def _on(self) -> str:
        left, right = self._chance.choice(PAIRS)
        word = self._one("=", "=", "=", "<=>", "<", "<>")
        more = self._one("", "", " AND b.n > 0", " AND a.fee IS NOT NULL", " AND b.price < a.id", " OR b.ok")
        return f"{left} {word} {right}{more}"

    def _source(self) -> tuple[str, bool]:
        """A join, and whether columns of its right side may be read."""
        kind = self._one(*JOINS)
        text = f"bids {{w}} b {kind} auctions {{w}} a ON {self._on()}"
        both = not kind.startswith(("SEMI", "ANTI"))
        if both and self._chance.random() < 0.3:
            third = self._one("JOIN", "LEFT JOIN", "FULL JOIN")
            text += f" {third} persons {{w}} p ON a.seller = p.id"
        return text, both

    def _columns(self, both: bool) -> tuple[str, ...]:
        return tuple(f"b.{name}" for name in BIDS) + (tuple(f"a.{name}" for name in AUCTIONS) if both else ())

    def _where(self) -> str:
        return self._one(
            *(
                "",
                "",
                " WHERE b.n > 0",
                " WHERE b.kind IS NULL OR b.d <> 0",
                " WHERE NOT b.ok",
                " WHERE b.amount / b.share > 1",
            ),
            *(" WHERE b.d = b.f", " WHERE b.price % 3 = 1", " WHERE b.n > 1000000"),
        )

    def _joined(self) -> str:
        source, both = self._source()
        values = self._some(self._columns(both), 4)
        listed = ", ".join(f"{each} AS o{at}" for at, each in enumerate(values))
        return f"SELECT {self._one('', '', 'DISTINCT ')}{listed} FROM {source}{self._where()}"

    def _aggregates(self, columns: tuple[str, ...]) -> list[str]:
        found = []
        for _ in range(self._chance.randint(1, 3)):
            if self._chance.random() < 0.4:
                found.append(self._one(*SUMMED).format(self._one(*NUMBERS)))
            else:
                found.append(self._one(*AGGREGATES).format(self._one(*columns), self._one(*columns)))
        return found

    def _grouped(self, having: bool = True) -> str:
        source, both = self._source() if self._chance.random() < 0.6 else ("bids {w} b", False)
        columns = self._columns(both)
        keys = self._some(
            (*columns, "b.n % 3", "b.d * 0", "b.n + b.small", "upper(b.kind)", "coalesce(b.n, b.price)"), 3
        )
        keys = keys[: self._chance.randint(0, 3)]
        values = [*keys, *self._aggregates(columns)]
        listed = ", ".join(f"{each} AS o{at}" for at, each in enumerate(values))
        group = f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
        last = self._one("", "", " HAVING count(*) > 1", " HAVING max(b.n) IS NULL OR sum(b.n) > 0") if having else ""
        return f"SELECT {listed} FROM {source}{self._where()}{group}{last}"

    def _set(self) -> str:
        sides = [
            ("d", "weight"),
            ("n", "category"),
            ("kind", "name"),
            ("n", "fee"),
            ("small", "id"),
            ("amount", "fee"),
            ("f", "weight"),
            ("at", "at"),
        ]
        pairs = self._chance.sample(sides, self._chance.randint(1, 2))
        left, right = (", ".join(f"{pair[side]} AS o{at}" for at, pair in enumerate(pairs)) for side in (0, 1))
        word = self._one("UNION", "INTERSECT", "EXCEPT") + self._one("", " ALL")
        text = f"SELECT {left} FROM bids {{w}} {word} SELECT {right} FROM auctions {{w}}"
        if self._chance.random() < 0.3:
            third = ", ".join(f"{pair[0]} AS o{at}" for at, pair in enumerate(pairs))
            text = (
                f"({text}) {self._one('UNION', 'EXCEPT ALL', 'INTERSECT')} SELECT {third} FROM bids {{w}} WHERE n > 0"
            )
        if self._chance.random() < 0.3:
            text = f"SELECT o0, count(*) AS c FROM ({text}) GROUP BY o0"
        elif self._chance.random() < 0.3:
            text = f"({text}) ORDER BY 1 {self._one('', 'DESC', 'NULLS LAST')} LIMIT {self._chance.randint(1, 9)}"
        return text

    def _subquery(self) -> str:
        correlated = self._one(
            "", " WHERE a.category = b.n", " WHERE a.name = b.kind", " WHERE a.weight = b.d", " WHERE a.id < b.auction"
        )
        value, column = self._one(
            "b.auction id", "b.n category", "b.d weight", "b.f weight", "b.kind name", "b.small category", "b.n fee"
        ).split()
        condition = self._one(
            f"{value} IN (SELECT a.{column} FROM auctions {{w}} a{correlated})",
            f"{value} NOT IN (SELECT a.{column} FROM auctions {{w}} a{correlated})",
            f"NOT ({value} IN (SELECT a.{column} FROM auctions {{w}} a WHERE a.{column} IS NOT NULL))",
            f"EXISTS (SELECT 1 FROM auctions {{w}} a{correlated})",
            f"NOT EXISTS (SELECT 1 FROM auctions {{w}} a{correlated})",
            f"b.n > (SELECT avg(a.category) FROM auctions {{w}} a{correlated})",
            f"b.d = (SELECT max(a.weight) FROM auctions {{w}} a{correlated})",
            f"b.n > 0 OR {value} IN (SELECT a.{column} FROM auctions {{w}} a)",
            f"b.ok OR NOT EXISTS (SELECT 1 FROM auctions {{w}} a{correlated})",
        )
        if self._chance.random() < 0.3:
            text = self._one("count(*)", "max(a.fee)", "sum(a.category)", "min(a.name)")
            return f"SELECT b.kind AS k, (SELECT {text} FROM auctions {{w}} a{correlated}) AS v FROM bids {{w}} b"
        if self._chance.random() < 0.3:
            return (
                f"SELECT b.kind AS k, count(*) AS c, sum(b.n) AS s FROM bids {{w}} b WHERE {condition} GROUP BY b.kind"
            )
        return f"SELECT b.kind AS k, b.n AS n, b.d AS d FROM bids {{w}} b WHERE {condition}"

    def _ranked(self) -> str:
        columns = self._columns(False)
        order = f"ORDER BY {self._one(*columns)} {self._one('', 'DESC', 'DESC NULLS FIRST', 'NULLS LAST')}"
        partition = f"PARTITION BY {self._one(*columns)} " if self._chance.random() < 0.6 else ""
        function = self._one(
            "rank()",
            "dense_rank()",
            "percent_rank()",
            "cume_dist()",
            "count(*)",
            "sum(b.n)",
            "max(b.amount)",
            "avg(b.n)",
        )
        listed = f"b.kind AS k, b.n AS n, {function} OVER ({partition}{order}) AS r"
        if self._chance.random() < 0.3:
            return (
                "SELECT b.n AS n, sum(b.small) AS s, rank() OVER (ORDER BY count(*) DESC, b.n) AS r, "
                "sum(count(*)) OVER () AS t FROM bids {w} b GROUP BY b.n"
            )
        text = f"SELECT {listed} FROM bids {{w}} b{self._where()}"
        return f"SELECT x.k, x.r FROM ({text}) x WHERE x.r <= 2" if self._chance.random() < 0.3 else text

    def _limited(self) -> str:
        order = f"ORDER BY {self._chance.randint(1, 2)} {self._one('', 'DESC', 'NULLS LAST')}"
        limit = f"LIMIT {self._chance.randint(0, 6)}{self._one('', ' OFFSET 2')}"
        values = ", ".join(f"{each} AS o{at}" for at, each in enumerate(self._chance.sample(self._columns(False), 3)))
        if self._chance.random() < 0.5:
            return f"SELECT {self._one('', 'DISTINCT ')}{values} FROM bids {{w}} b {self._one(order, '')} {limit}"
        return f"SELECT b.kind AS k, count(*) AS c, max(b.d) AS m FROM bids {{w}} b GROUP BY b.kind {order} {limit}"
