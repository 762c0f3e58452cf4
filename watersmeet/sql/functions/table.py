"""The closed table of what expressions may say. What is not in it is rejected.

An entry has names, a function that builds the typed expression from typed arguments, and examples: SQL in which
{int}, {string} … stand for columns of that type (tests/semantics/ has the list). The semantics suite runs every example
over extreme values here and in Spark, and docs/semantics.md lists them. A function enters the table with its examples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from watersmeet.model.expression import COMPARISONS, Cast, Expression, Literal, Operation, Sql
from watersmeet.sql.functions.folding import folded, never_null
from watersmeet.sql.spark_types import Unsupported

Build = Callable[..., Expression]


@dataclass(frozen=True)
class Entry:
    names: tuple[str, ...]  # lower case; the first is shown
    family: str
    fewest: int
    most: int
    build: Build
    examples: tuple[str, ...]


TABLE: dict[str, Entry] = {}
# All others are NULL where an argument is, and then compute nothing of what stands behind it.
_OWN_ORDER = {"and", "or", "not", "!", "case", "if", "coalesce", "nvl", "ifnull", "nvl2", "nullif", "greatest", "least"}
_OWN_ORDER |= {"in", "between", "<=>", "nanvl", "concat", "||", "concat_ws"}
_BACKWARDS = ("/", "%", "mod", "div", "pmod")  # where the divisor comes first
ANY_NUMBER = 10_000
# Functions whose result may be many times as long as their arguments, more so inside of each other.
_GROWING = {"repeat", "lpad", "rpad", "space", "array_repeat", "sequence", "replace", "regexp_replace"}
_LONGEST_CONSTANT = 1e7


def entry(
    names: str | tuple[str, ...], family: str, counts: int | tuple[int, int], *examples: str
) -> Callable[[Build], Build]:
    """Declares a function by what follows: its names, how many arguments it takes, and examples."""
    fewest, most = (counts, counts) if isinstance(counts, int) else counts

    def declare(build: Build) -> Build:
        listed = tuple(names.split()) if isinstance(names, str) else names
        made = Entry(listed, family, fewest, most, build=build, examples=examples)
        for name in made.names:
            assert name not in TABLE, name
            TABLE[name] = made
        return build

    return declare


def build_call(name: str, arguments: list[Expression]) -> Expression:
    found = TABLE[name]
    if not found.fewest <= len(arguments) <= found.most:
        allowed = f"{found.fewest}" if found.fewest == found.most else f"{found.fewest} or more"
        raise Unsupported(
            f"{name} takes {allowed} arguments and has {len(arguments)}", f"write it like {found.examples[0]}"
        )
    _check_growth(name, arguments)
    built = _in_order(name, found.build(*arguments), arguments)
    known = folded(name, built, arguments, name not in _OWN_ORDER)
    return replace(known, never_null=True) if isinstance(known, Sql) and never_null(name, arguments) else known


def _check_growth(name: str, arguments: list[Expression]) -> None:
    """Reject what would be long: DuckDB computes constants when a query is checked, and nothing interrupts that."""
    if name not in _GROWING or any(argument.columns for argument in arguments):
        return
    if math.prod(map(_length, arguments)) > _LONGEST_CONSTANT:
        raise Unsupported(f"{name} of these constants may be too long", "write its value, or ask for less")


def _length(constant: Expression) -> float:
    """What the length of a constant, or a length that it asks for, cannot exceed by much."""
    if isinstance(constant, Literal):
        size = len(constant.value) if isinstance(constant.value, str) else abs(float(constant.value))
        return max(1.0, size)
    sizes = re.findall(r"\d+", "".join(constant.fragments)) if isinstance(constant, Sql) else ()
    return math.prod(map(_length, constant.operands)) * math.prod(max(1.0, float(size)) for size in sizes)


def _in_order(name: str, built: Expression, arguments: list[Expression]) -> Expression:
    """What stands behind a NULL may not raise, as in Spark: NULL + error is NULL, and error + NULL is an error."""
    if len(arguments) < 2 or name in _OWN_ORDER:
        return built
    ordered = arguments[::-1] if name in _BACKWARDS else arguments
    first, *others = ordered
    converted = [operand for operand in built.operands if operand.fallible and first.text not in operand.text]
    # What may raise and stands before something that may be NULL has to be computed, whatever the text does first.
    before = first.fallible and isinstance(built, Sql) and not all(isinstance(other, Literal) for other in others)
    if not before and not converted and not any(other.fallible for other in others):
        return built
    if isinstance(built, Operation) and (built.operator in COMPARISONS or built.operator in ("+", "-", "*")):
        return replace(built, lazy=True)
    if isinstance(built, Cast) and isinstance(built.operands[0], Operation):
        return replace(built, operands=(replace(built.operands[0], lazy=True),))
    for argument in reversed(ordered[:-1]):
        if not isinstance(argument, Literal):
            test = argument if not isinstance(argument, Operation) else Operation("()", (argument,), argument.type)
            built = Sql(("CASE WHEN ", " IS NOT NULL THEN ", " END"), (test, built), built.type)
    return built
