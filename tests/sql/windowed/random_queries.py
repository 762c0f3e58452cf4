"""Random windowed queries over the streams of conftest.py: what one may write, not what anybody would."""

from __future__ import annotations

import random

STREAMS = {
    "bids": {
        **{"auction": "bigint", "price": "bigint", "n": "int", "small": "smallint", "amount": "decimal"},
        **{
            "share": "decimal",
            "d": "double",
            "f": "float",
            "kind": "string",
            "ok": "boolean",
            "day": "date",
            "at": "time",
        },
    },
    "auctions": {
        "id": "bigint",
        "category": "int",
        "name": "string",
        "fee": "decimal",
        "weight": "double",
        "at": "time",
    },
    "persons": {"id": "bigint", "name": "string", "city": "string"},
}
NUMBERS = ("bigint", "int", "smallint", "decimal", "double", "float")
AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev", "count DISTINCT", "sum DISTINCT")
Columns = dict[str, str]  # an expression that is a column, and its kind


class Generator:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._aliases = 0

    def query(self) -> str:
        text, _ = self._select(2, named=True)
        if self._chance.random() < 0.15:
            count = text.count(" AS o")
            text += f" ORDER BY {self._chance.randint(1, max(1, count))} DESC LIMIT {self._chance.randint(1, 9)}"
        return text

    def _select(self, depth: int, named: bool = False) -> tuple[str, Columns]:
        source, columns = self._source(depth)
        where = f" WHERE {self._condition(columns, depth)}" if self._chance.random() < 0.5 else ""
        if self._chance.random() < 0.6:
            keys = [self._scalar(columns, 1) for _ in range(self._chance.randint(0, 2))]
            values = [*keys, *(self._aggregate(columns) for _ in range(self._chance.randint(1, 3)))]
            kinds = [*(kind for _, kind in keys), *(kind for _, kind in values[len(keys) :])]
            group = f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
            having = " HAVING count(*) > 1" if self._chance.random() < 0.2 else ""
            tail = f"{where}{group}{having}"
        else:
            values = [self._scalar(columns, 2) for _ in range(self._chance.randint(1, 3))]
            kinds = [kind for _, kind in values]
            tail = where
        listed = ", ".join(f"{text} AS o{at}" for at, (text, _) in enumerate(values))
        word = "SELECT DISTINCT" if self._chance.random() < 0.1 else "SELECT"
        return f"{word} {listed} FROM {source}{tail}", {f"o{at}": kind for at, kind in enumerate(kinds)}

    def _source(self, depth: int) -> tuple[str, Columns]:
        text, columns = self._one(depth)
        if self._chance.random() < 0.4:
            kind = self._chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
            other, theirs = self._one(depth)
            left, right = (self._chance.choice([*self._of(each, NUMBERS), "1"]) for each in (columns, theirs))
            text = f"{text} {kind} {other} ON {left} = {right}"
            columns = columns if kind.startswith(("SEMI", "ANTI")) else {**columns, **theirs}
        return text, columns

    def _one(self, depth: int) -> tuple[str, Columns]:
        self._aliases += 1
        alias = f"t{self._aliases}"
        if depth > 0 and self._chance.random() < 0.3:
            text, columns = self._select(depth - 1)
            return f"({text}) {alias}", {f"{alias}.{name}": kind for name, kind in columns.items()}
        stream = self._chance.choice(list(STREAMS))
        return f"{stream} {{w}} {alias}", {f"{alias}.{name}": kind for name, kind in STREAMS[stream].items()}

    def _of(self, columns: Columns, kinds: tuple[str, ...]) -> list[str]:
        return [name for name, kind in columns.items() if kind in kinds]

    def _number(self, columns: Columns, depth: int) -> tuple[str, str]:
        known = self._of(columns, NUMBERS)
        if depth <= 0 or not known or self._chance.random() < 0.3:
            name = self._chance.choice([*known, "1", "2.5", "1e0"])
            return name, columns.get(name, "number")
        left, right = (self._number(columns, depth - 1)[0] for _ in range(2))
        form = self._chance.choice(
            ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "coalesce({}, {})", "CASE WHEN {} > 1 THEN {} END"]
        )
        return form.format(left, right), "number"

    def _scalar(self, columns: Columns, depth: int) -> tuple[str, str]:
        strings = self._of(columns, ("string",))
        if strings and self._chance.random() < 0.3:
            form = self._chance.choice(["{}", "upper({})", "concat({}, '-')", "length({})", "substring({}, 1, 2)"])
            return form.format(self._chance.choice(strings)), "int" if form.startswith("length") else "string"
        times = self._of(columns, ("time", "date"))
        if times and self._chance.random() < 0.2:
            return f"year({self._chance.choice(times)})", "int"
        if self._chance.random() < 0.05:
            return "window_start", "time"
        text, kind = self._number(columns, depth)
        return (text, kind) if kind != "number" else (text, "double" if "1e0" in text else "mixed")

    def _condition(self, columns: Columns, depth: int) -> str:
        left, right = self._number(columns, 1)[0], self._number(columns, 1)[0]
        if depth > 0 and self._chance.random() < 0.2:
            self._aliases += 1
            inner = f"SELECT max(x{self._aliases}.id) FROM auctions {{w}} x{self._aliases}"
            outer = self._of(columns, NUMBERS)
            where = f" WHERE x{self._aliases}.category = {self._chance.choice(outer)}" if outer else ""
            return f"{left} {self._chance.choice(['>', 'IN', 'NOT IN'])} ({inner}{where})"
        return f"{left} {self._chance.choice(['=', '<', '>=', '<>'])} {right}"

    def _aggregate(self, columns: Columns) -> tuple[str, str]:
        name = self._chance.choice(
            ["count", "sum", "avg", "min", "max", "stddev", "count DISTINCT", "sum DISTINCT", "*"]
        )
        if name == "*":
            return "count(*)", "bigint"
        text, _ = self._number(columns, 1)
        function, _, distinct = name.partition(" ")
        chosen = f" FILTER (WHERE {self._condition(columns, 0)})" if self._chance.random() < 0.2 else ""
        return f"{function}({distinct} {text}){chosen}".replace("( ", "("), "mixed"
