"""Random queries with parentheses wherever SQL lets them be: tables, joins, subqueries, expressions, set operations.

Their text is for Spark as it is, and for the engine with a WINDOW behind it. Values are small whole numbers and NULL,
so that nothing overflows and no order of rows matters.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

STREAMS = {"l": ("id", "a", "k"), "r": ("id", "b", "k"), "m": ("id", "c", "k")}
ROWS = {
    "l": [(1, 1, 1), (2, 2, None), (3, None, 2), (4, 3, 1), (5, 1, 0)],
    "r": [(1, 1, 2), (2, 1, 1), (3, 4, None), (4, None, 1)],
    "m": [(1, 2, 1), (2, 3, 3), (3, 1, None), (4, 3, 0), (5, 0, 1), (6, None, 2)],
}
_JOINS = (
    "JOIN",
    "INNER JOIN",
    "LEFT JOIN",
    "LEFT OUTER JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "FULL OUTER JOIN",
    "CROSS JOIN",
)
_HIDING = ("SEMI JOIN", "LEFT SEMI JOIN", "ANTI JOIN", "LEFT ANTI JOIN")
_AGGREGATES = ("count", "sum", "min", "max", "count DISTINCT")


@dataclass(frozen=True)
class Source:
    text: str
    columns: tuple[tuple[str, str], ...]  # the alias and the name of each column that can be read
    merged: tuple[str, ...] = ()  # columns of USING, which have no alias
    joined: bool = False  # not one table or subquery

    @property
    def readable(self) -> list[str]:
        return [*self.merged, *(f"{alias}.{name}" for alias, name in self.columns)]


class Generator:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._numbers = 0

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    def _alias(self) -> str:
        self._numbers += 1
        return f"t{self._numbers}"

    def _wrapped(self, text: str, share: float = 0.35) -> str:
        while self._happens(share):
            text = f"({text})"
        return text

    # Expressions ---------------------------------------------------------------------------------

    def _value(self, columns: list[str], depth: int = 2) -> str:
        pick = self._chance.randrange(8) if depth else 0
        column = self._chance.choice(columns)
        if pick <= 2:
            return self._wrapped(column)
        inner = [self._value(columns, depth - 1) for _ in range(2)]
        return self._wrapped(
            {
                3: str(self._chance.randrange(4)),
                4: f"{self._wrapped(inner[0])} {self._chance.choice('+-*')} ({inner[1]})",
                5: f"coalesce({inner[0]}, {inner[1]})",
                6: f"CASE WHEN {self._condition(columns, 0)} THEN {inner[0]} ELSE {inner[1]} END",
                7: f"if({self._condition(columns, 0)}, {inner[0]}, {inner[1]})",
            }[pick]
        )

    def _condition(self, columns: list[str], depth: int = 1) -> str:
        pick = self._chance.randrange(9 if depth else 5)
        one, other = self._value(columns, 0), self._value(columns, 0)
        if pick < 5:
            plain = (
                f"{one} = {other}",
                f"{one} {self._chance.choice(['<', '<=', '<>', '<=>'])} {other}",
                f"{one} IS NOT NULL",
                f"{one} IN (({self._chance.randrange(3)}), {self._chance.randrange(3)})",
                f"{one} BETWEEN (0) AND {self._chance.randrange(4)}",
            )
            return self._wrapped(plain[pick])
        left, right = self._condition(columns, depth - 1), self._condition(columns, depth - 1)
        word = self._chance.choice(["AND", "AND", "OR"])
        return f"NOT ({left})" if pick == 8 else self._wrapped(f"({left}) {word} ({right})")

    # FROM ----------------------------------------------------------------------------------------

    def _table(self) -> Source:
        name = self._chance.choice(list(STREAMS))
        alias = self._alias()
        text = f"{name}{self._chance.choice([' ', ' AS '])}{alias}"
        return Source(self._wrapped(text), tuple((alias, column) for column in STREAMS[name]))

    def _subquery(self, depth: int) -> Source:
        alias, width = self._alias(), self._chance.randint(1, 3)
        text = f"({self._wrapped(self.query(depth, width))})"
        return Source(
            self._wrapped(f"{text}{self._chance.choice([' ', ' AS '])}{alias}"),
            tuple((alias, f"o{at}") for at in range(width)),
        )

    def _one(self, depth: int) -> Source:
        if depth and self._happens(0.25):
            return self._subquery(depth - 1)
        if depth and self._happens(0.25):
            inner = self._source(depth - 1)
            if self._happens(0.25):
                return self._renamed(inner)
            return replace(inner, text=f"({inner.text})")
        return self._table()

    def _renamed(self, inner: Source) -> Source:
        alias = self._alias()
        names = [*inner.merged, *(name for _, name in inner.columns)]
        once = tuple((alias, name) for name in names if names.count(name) == 1)
        return Source(f"({inner.text}) AS {alias}", once) if once else replace(inner, text=f"({inner.text})")

    def _source(self, depth: int) -> Source:
        found = self._one(depth)
        while self._happens(0.45) and len(found.columns) < 10:
            found = self._join(found, self._one(depth))
        return found

    def _join(self, left: Source, right: Source) -> Source:
        both = [*left.readable, *right.readable]
        columns, merged = (*left.columns, *right.columns), (*left.merged, *right.merged)
        if self._happens(0.15):
            return Source(f"{left.text}, {right.text}", columns, merged, joined=True)
        word = self._chance.choice([*_JOINS, *_HIDING])
        hiding = word in _HIDING
        can_use = not left.merged and not right.merged
        shared = [
            name for name in ("k", "id") if all([c for _, c in s.columns].count(name) == 1 for s in (left, right))
        ]
        kept = (left.columns, left.merged) if hiding else (columns, merged)
        if can_use and shared and word != "CROSS JOIN" and self._happens(0.2):
            text = f"{left.text} {word} {right.text} USING ({shared[0]})"
            if not hiding:
                kept = (tuple(each for each in columns if each[1] != shared[0]), (shared[0],))
            return Source(text, *kept, joined=True)
        if word == "CROSS JOIN" or self._happens(0.04):
            return Source(f"{left.text} {word} {right.text}", *kept, joined=True)
        one, other = (self._wrapped(self._chance.choice(each.readable)) for each in (left, right))
        on = f"{one} = {other}"
        if self._happens(0.4):
            on = f"{self._wrapped(on)} AND {self._wrapped(self._condition(both), 0.6)}"
        return Source(f"{left.text} {word} {right.text} ON {self._wrapped(on)}", *kept, joined=True)

    # Queries -------------------------------------------------------------------------------------

    def query(self, depth: int = 2, width: int = 0) -> str:
        """A query with outputs o0, o1, …, all of them whole numbers."""
        width = width or self._chance.randint(1, 3)
        if depth and self._happens(0.2):
            word = self._chance.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
            sides = [self._wrapped(self.query(depth - 1, width), 0.6) for _ in range(2)]
            return f"({sides[0]}) {word} ({sides[1]})"
        if depth and self._happens(0.2):
            name = f"w{self._alias()}"
            inner = self.query(depth - 1, width)
            listed = ", ".join(f"{self._wrapped(f'{name}.o{at}')} AS o{at}" for at in range(width))
            return f"WITH {name} AS ({self._wrapped(inner)}) SELECT {listed} FROM {self._wrapped(name)}"
        return self._select(depth, width)

    def _select(self, depth: int, width: int) -> str:
        source = self._source(depth)
        columns = source.readable
        where = f" WHERE {self._where(columns, depth)}" if self._happens(0.5) else ""
        if self._happens(0.4):
            return self._grouped(source, columns, where, width)
        word = "SELECT DISTINCT" if self._happens(0.1) else "SELECT"
        listed = ", ".join(f"{self._value(columns)} AS o{at}" for at in range(width))
        return f"{word} {listed} FROM {source.text}{where}"

    def _grouped(self, source: Source, columns: list[str], where: str, width: int) -> str:
        keys = [self._value(columns, 1) for _ in range(self._chance.randint(0, width - 1))]
        values = list(keys)
        while len(values) < width:
            name = self._chance.choice(_AGGREGATES)
            value = "*" if name == "count" and self._happens(0.5) else self._value(columns, 1)
            called = f"count(DISTINCT {value})" if name == "count DISTINCT" else f"{name}({value})"
            values.append(self._wrapped(called))
        listed = ", ".join(f"{value} AS o{at}" for at, value in enumerate(values))
        group = f" GROUP BY {', '.join(self._wrapped(key, 0.2) for key in keys)}" if keys else ""
        having = f" HAVING {self._wrapped('(count(*)) > 1')}" if self._happens(0.2) else ""
        return f"SELECT {listed} FROM {source.text}{where}{group}{having}"

    def _where(self, columns: list[str], depth: int) -> str:
        plain = self._condition(columns)
        if not depth or self._happens(0.6):
            return plain
        table = self._table()
        compared = f"{self._chance.choice(table.readable)} = {self._chance.choice(columns)}"
        where = f" WHERE {self._wrapped(compared)}" if self._happens(0.7) else ""
        column, outer = self._chance.choice(table.readable), self._chance.choice(columns)
        no = self._chance.choice(["", "", "NOT "])
        nested = self._chance.choice(
            [
                f"{no}EXISTS (SELECT 1 FROM {table.text}{where})",
                f"{no}EXISTS ({self._wrapped(f'SELECT {column} FROM {table.text}{where}')})",
                f"{self._wrapped(outer)} {no}IN (SELECT {self._wrapped(column)} FROM {table.text}{where})",
                f"{outer} = ({self._wrapped(f'SELECT max({column}) FROM {table.text}{where}')})",
                f"{outer} IN (WITH z AS (SELECT {column} AS v FROM {table.text}) SELECT v FROM z)",
            ]
        )
        return f"{self._wrapped(plain)} AND {self._wrapped(nested)}" if self._happens(0.5) else self._wrapped(nested)


class ContinuousGenerator(Generator):
    """Joins that a continuous query may have: one that keeps rows without a partner, at most, among inner ones."""

    def continuous(self) -> str:
        source = self._table()
        aliases = [source.columns[0][0]]
        special = False
        for _ in range(self._chance.randint(0, 2)):
            other = self._table()
            alias = other.columns[0][0]
            word = self._chance.choice(["JOIN", "JOIN", "INNER JOIN", "CROSS JOIN", ","])
            if not special and self._happens(0.5):
                word, special = self._chance.choice(["LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", *_HIDING]), True
            text = f"{source.text}{'' if word == ',' else ' '}{word} {other.text}"
            if word not in (",", "CROSS JOIN"):
                text += f" ON {self._on(source.readable, other.readable)}"
            if word in _HIDING:
                columns = source.columns
            else:
                aliases.append(alias)
                columns = (*source.columns, *other.columns)
            source = Source(text, columns, joined=True)
            if word != "," and "," not in source.text and self._happens(0.3):
                source = replace(source, text=f"({source.text})")
        readable = source.readable
        conditions = [self._wrapped(f"{readable[1]} = {self._chance.choice(readable)}") for _ in range(2)]
        where = [*(conditions if "," in source.text else conditions[:1] if self._happens(0.4) else [])]
        if not special and self._happens(0.4):
            where.append(self._nested(readable))
        text = f" WHERE {' AND '.join(where)}" if where else ""
        listed = [f"{self._wrapped(f'{alias}.id')} AS i{at}" for at, alias in enumerate(aliases)]
        listed += [f"{self._value(readable, 1)} AS o{at}" for at in range(self._chance.randint(0, 2))]
        return f"SELECT {', '.join(listed)} FROM {source.text}{text}"

    def _on(self, left: list[str], right: list[str]) -> str:
        on = f"{self._wrapped(self._chance.choice(left))} = {self._wrapped(self._chance.choice(right))}"
        if self._happens(0.4):
            last = [each for each in left if each.split(".")[0] == left[-1].split(".")[0]]
            on = f"{self._wrapped(on)} AND {self._wrapped(self._condition([*last, *right], 0), 0.6)}"
        return self._wrapped(on)

    def _nested(self, columns: list[str]) -> str:
        table = self._table()
        compared = self._wrapped(f"{self._chance.choice(table.readable)} = {self._chance.choice(columns)}")
        no = self._chance.choice(["", "NOT "])
        column = self._chance.choice(table.readable)
        if self._happens(0.5):
            return f"{no}EXISTS ({self._wrapped(f'SELECT 1 FROM {table.text} WHERE {compared}', 0.2)})"
        value = self._wrapped(self._chance.choice(columns))
        return f"{value} {no}IN (SELECT {self._wrapped(column)} FROM {table.text} WHERE {compared})"
