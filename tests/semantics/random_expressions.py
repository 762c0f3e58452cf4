"""Random nested expressions: the examples of the table with expressions in the places of their columns.

An expression is accepted here before it stands inside of another one, and its type says where it may stand. Now and
then something of any type stands there, so that implicit conversions and rejections have their share too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from tests.semantics.examples import CASTS, ENTRIES
from tests.semantics.values import FAMILIES, SHORT, VALUES
from watersmeet.errors import SqlError
from watersmeet.model import Column, Expression, SparkCall, Stream
from watersmeet.model.types import arrow_type
from watersmeet.sql.query import build_query

ROWS = 150
CRASHED = "no rejection but an accident:"
_LONGEST = 400  # characters of an expression
_SIDES = (1, 2, 3)
# Dates and times that DuckDB does not have: docs/semantics.md tells.
_BEYOND = ("date_add(dt2, i1", "date_sub(dt2, i1", "date_from_unix_date(i1", "timestamp_micros(g1")
_PLACE = re.compile(r"\{([a-z_]+?)(2?)\}")
# Types beyond those of the table's examples.
MORE_VALUES: dict[str, list[object]] = {
    "decimal(5,0)": [None, *(Decimal(text) for text in ("0", "1", "-1", "99999", "-99999", "7"))],
    "decimal(18,6)": [None, *(Decimal(text) for text in ("0.000000", "1.500000", "-999999999999.999999", "0.000001"))],
    "decimal(38,18)": [
        None,
        *(Decimal(text) for text in ("0E-18", "1.000000000000000000", "-0.000000000000000001")),
        Decimal("99999999999999999999.999999999999999999"),
    ],
    "binary": [None, b"", b"a", b"\x00\xff", b"abc"],
    "array<string>": [None, [], ["a", None, ""], ["é"]],
    "array<double>": [None, [], [float("nan"), -0.0, None], [1.5, 0.0]],
    "map<int,string>": [None, [], [(1, "a"), (7, None)]],
    "struct<x:int,y:string>": [None, {"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2147483647, "y": "7"}],
}
_MORE_STRINGS = ["7", "-1", "+0", "1e3", "NaN", "-Infinity", "2024-2-9", "2024-02-30", "1.5d", "9223372036854775808"]
_MORE_STRINGS += [
    "2024-02-29 12:30:45",
    "%",
    "_",
    "a%",
    "\\",
    "\t7\n",
    "ab" * 9,
    "a\nb",
    "É",
    "ǅ",
    "😀",
    "no",
    "0x1F",
    ".",
]
_MORE_STRINGS += ["\x7f7", "+12345-1", "-2024-01-01", "1e400", "12345678-1-1", "2024-1-1T", "T", "1_000", "Inf"]
_SHORT = {
    **SHORT,
    **{"decimal(5,0)": "dw", "decimal(18,6)": "dm", "decimal(38,18)": "dx", "binary": "bin"},
    **{"array<string>": "arrs", "array<double>": "arrd", "map<int,string>": "mi", "struct<x:int,y:string>": "st"},
}
COLUMNS = {f"{short}{side}": kind for kind, short in _SHORT.items() for side in _SIDES}
STREAM = Stream(
    "wide",
    (Column("at", "timestamp"), Column("id", "bigint"), *(Column(name, kind) for name, kind in COLUMNS.items())),
    "at",
)
LITERALS: dict[str, list[str]] = {
    "int": ["0", "1", "-1", "7", "2147483647", "-2147483648", "2", "31"],
    "bigint": ["1L", "-1L", "4294967296", "9223372036854775807", "-9223372036854775808", "0L"],
    "smallint": ["7S", "-1S"],
    "tinyint": ["1Y", "-128Y"],
    "double": ["1e3", "-1.5e0", "0e0", "1.5D", "-0.0D", "1e308", "0.1D"],
    "float": ["0.1F", "1.5F"],
    "decimal(10,2)": ["1.5", "0.1", "-0.01", "1.50BD", "99999999.99", "0.0", "100.", ".5"],
    "string": [
        "'a'",
        "''",
        "' '",
        "'7'",
        "'1.5'",
        "'é'",
        "'2024-02-29'",
        "'true'",
        "'it''s'",
        "'x\\n'",
        '"b"',
        "r'a\\b'",
    ],
    "date": ["DATE '2024-02-29'", "DATE '1969-12-31'", "DATE '0001-01-01'", "DATE '2024-2-9'"],
    "timestamp": [
        "TIMESTAMP '2024-02-29 12:30:45.123456'",
        "TIMESTAMP '2024-01-01 02:00:00+02:00'",
        "TIMESTAMP '1969-12-31 23:59:59Z'",
        "TIMESTAMP '2024-01-01'",
        "TIMESTAMP '2024-01-01T00:30:00-05:30'",
    ],
    "timestamp_ntz": ["TIMESTAMP_NTZ '2024-02-29 12:30:45.123456'"],
    "boolean": ["TRUE", "FALSE"],
    "binary": ["X'1F'", "X''"],
    "interval": [
        "INTERVAL '1' DAY",
        "INTERVAL '-90' SECOND",
        "INTERVAL '1' MONTH",
        "INTERVAL 2 HOURS",
        "INTERVAL '1.5' SECOND",
    ],
}
EXAMPLES = [example for entry in ENTRIES for example in entry.examples]
_TYPES: tuple[str, ...] = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10,2)",
    "DECIMAL(20,0)",
    "DECIMAL(38,18)",
)
_TYPES = (*_TYPES, "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "DECIMAL(3,3)")
_ANY = ("= ", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div", "||", "&")
TEMPLATES = [
    *dict.fromkeys((*EXAMPLES, *CASTS)),
    *(f"{{any}} {operator} {{any2}}" for operator in _ANY),
    *(f"{{number}} {operator} {{number2}}" for operator in _ANY),
    *(f"CAST({{any}} AS {kind})" for kind in _TYPES),
    *(f"CAST({{number}} AS {kind})" for kind in _TYPES),
    *(f"try_cast({{any}} AS {kind})" for kind in _TYPES),
    *("{any} IN ({any2}, {any})", "{any} NOT IN ({any2}, NULL)", "{any} BETWEEN {any2} AND {any}", "{any} IS NULL"),
    *(
        "coalesce({any}, {any2}, {any})",
        "greatest({any}, {any2})",
        "least({any}, {any2}, {any})",
        "nullif({any}, {any2})",
    ),
    *("CASE WHEN {boolean} THEN {any} WHEN {boolean2} THEN {any2} ELSE {any} END", "if({boolean}, {any}, {any2})"),
    *("CASE {any} WHEN {any2} THEN {any} ELSE {any2} END", "nvl2({any}, {any2}, {any})", "{array}[{integer}]"),
    *("{boolean} AND {boolean2} AND {boolean}", "{boolean} OR {boolean2} AND {boolean}", "NOT {boolean} OR {boolean2}"),
    *("{any} LIKE {string}", "{any} LIKE 'a%'", "concat({any}, {any2})", "abs({any})", "-{any}", "length({any})"),
    *("{struct}.x", "{struct}.y", "{struct}.x + {int}", "element_at({array}, {integer})", "{map}[{string}]"),
    *("{date} + {interval}", "{timestamp} - {interval}", "{any} + {interval}"),
    *(
        "{timestamp} - {timestamp2} > {interval}",
        "year({any})",
        "hour({any})",
        "substring({any}, {integer}, {integer2})",
    ),
    *("round({any}, 1)", "floor({any})", "sqrt({any})", "isnan({any})", "size({any})", "upper({any})", "trim({any})"),
    *("array_contains({any}, {any2})", "element_at({any}, {any2})", "{any}[{any2}]", "contains({any}, {any2})"),
    *(
        "datediff({any}, {any2})",
        "unix_seconds({any})",
        "date_trunc('week', {any})",
        "to_date({any})",
        "{any} RLIKE 'a'",
    ),
]
_MORE_FAMILIES = {
    "decimal": ("decimal(10,2)", "decimal(5,0)", "decimal(18,6)", "decimal(38,18)"),
    "array": ("array<int>", "array<string>", "array<double>"),
    "map": ("map<string,int>", "map<int,string>"),
    "struct": ("struct<x:int,y:string>",),
    "interval": ("interval",),
}


def rows() -> pa.Table:
    """The same ones in each run: every value beside others by chance."""
    chance = random.Random(1)
    data = {"id": pa.array(range(ROWS), pa.int64())}
    for name, kind in COLUMNS.items():
        listed = MORE_VALUES.get(kind) or VALUES[kind]
        listed = [*listed, *_MORE_STRINGS] if kind == "string" else listed
        data[name] = pa.array([chance.choice(listed) for _ in range(ROWS)], arrow_type(kind))
    return pa.table(data)


def output(text: str) -> Expression:
    query = build_query("q", f"SELECT {text} AS v FROM wide a WINDOW 1 DAY", {"wide": STREAM})
    return query.outputs[0].expression


def by_spark(expression: Expression) -> bool:
    """Whether Spark computes a part of it; test_by_spark.py compares those."""
    return any(isinstance(column, SparkCall) for column in expression.columns)


@dataclass(frozen=True)
class Drawn:
    text: str
    expression: Expression
    parts: tuple[Drawn, ...] = ()

    def inside(self) -> list[Drawn]:
        """Itself and what it is made of, small ones first."""
        found = {self.text: self}
        for part in self.parts:
            found.update({each.text: each for each in part.inside()})
        return sorted(found.values(), key=lambda each: len(each.text))


@dataclass
class Growing:
    chance: random.Random
    made: dict[str, list[Drawn]] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)

    def place(self, family: str) -> tuple[str, Drawn | None]:
        kinds = _MORE_FAMILIES.get(family) or FAMILIES.get(family) or tuple(_SHORT)
        if self.chance.random() < 0.08:
            kinds = (*_SHORT, "interval")
        kind = self.chance.choice(kinds)
        if kind.startswith("decimal") and self.chance.random() < 0.5:
            kind = self.chance.choice([each for each in self.made if each.startswith("decimal")] or [kind])
        if self.chance.random() < 0.03:
            return "NULL", None
        dice = self.chance.random()
        # Only computed values have such a type as decimal(26,6).
        if self.made.get(kind) and (dice < 0.45 or (kind not in _SHORT and kind not in LITERALS)):
            inner = self.chance.choice(self.made[kind])
            return f"({inner.text})", inner
        if kind in LITERALS and (dice > 0.85 or kind not in _SHORT):
            return self.chance.choice(LITERALS[kind]), None
        return f"{_SHORT[kind]}{self.chance.choice(_SIDES)}", None

    def draw(self) -> Drawn | None:
        template = self.chance.choice(TEMPLATES)
        pieces = _PLACE.split(template)
        filled = [self.place(family) for family in pieces[1::3]]
        text = pieces[0] + "".join(f"{one}{after}" for (one, _), after in zip(filled, pieces[3::3], strict=True))
        if len(text) > _LONGEST:
            return None
        try:
            found = output(text)
        except SqlError as error:
            self.rejected[text] = error.problem
            return None
        except Exception as error:
            self.rejected[text] = f"{CRASHED} {error!r}"
            return None
        if by_spark(found):
            return None
        drawn = Drawn(text, found, tuple(inner for _, inner in filled if inner))
        if found.columns:
            self.made.setdefault(found.type, []).append(drawn)
        return drawn


def drawn(
    seed: int, count: int, wanted: Callable[[Drawn], bool] = lambda _: True
) -> tuple[list[Drawn], dict[str, str]]:
    """So many different expressions, and what was rejected on the way with its reason."""
    growing = Growing(random.Random(seed))
    found: dict[str, Drawn] = {}
    while len(found) < count:
        one = growing.draw()
        if one is not None and wanted(one):
            found.setdefault(one.text, one)
    return list(found.values()), growing.rejected


def with_every_type() -> list[Drawn]:
    """The first examples of each entry with columns of every type in each place, as far as they are accepted."""
    found: dict[str, Drawn] = {}
    for example in dict.fromkeys(example for entry in ENTRIES for example in entry.examples[:4]):
        pieces = _PLACE.split(example)
        usual = [_SHORT[(_MORE_FAMILIES.get(family) or FAMILIES[family])[0]] for family in pieces[1::3]]
        for place in range(len(usual)):
            for other in (*(f"{short}1" for short in _SHORT.values()), "NULL", "7", "1.5", "'7'", "1L"):
                filled = [other if at == place else f"{short}2" for at, short in enumerate(usual)]
                text = pieces[0] + "".join(one + after for one, after in zip(filled, pieces[3::3], strict=True))
                if text.startswith(_BEYOND):
                    continue
                try:
                    expression = output(text)
                except SqlError:
                    continue
                if not by_spark(expression):
                    found[text] = Drawn(text, expression)
    return list(found.values())
