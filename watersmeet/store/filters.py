"""The filters of many queries on one row, as the bits of one word: the row's query set.

A bit is 1 where one of its alternatives is true; a bit without alternatives is always 1. Filters that only compare
integer columns with constants, are boolean columns, or compare remainders of integers, are not evaluated one by one:
the constants that a block compares a column with, sorted, cut its values into ranges, and a table holds for each
constant and each range between two of them the bits that such a value leaves. A row costs one bisection for each
column, however many filters compare it. Other filters go to DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from watersmeet.model.expression import (
    COMPARISONS,
    Cast,
    ColumnRef,
    Expression,
    Operation,
    Sql,
    conjuncts,
    constant,
    unnested,
)
from watersmeet.model.types import is_integer
from watersmeet.store.codes import EVERY_ROW, fixed_width
from watersmeet.store.derived import WIDEST, Bit, Block
from watersmeet.store.evaluate import Evaluated, evaluate
from watersmeet.store.kernels import I64, narrow_words

Words = np.ndarray  # unsigned integers, one a row
_Compared = tuple[str, int]  # a column, and what it is divided by if its remainder is compared, or 0
_Comparison = tuple[_Compared, str, int]  # with the operator and the constant
_Evaluate = Callable[[pa.RecordBatch, Sequence[Expression]], Evaluated]


def word_type(block: Sized) -> np.dtype:
    """The smallest unsigned integer that holds a bit for each query."""
    width = next(width for width in (8, 16, 32, 64) if len(block) <= width)
    return np.dtype(f"u{width // 8}")


def all_bits(block: Sized) -> int:
    return (1 << len(block)) - 1


def full_words(block: Sized, rows: int) -> Words:
    """The words of rows that every query wants."""
    return np.full(rows, all_bits(block), word_type(block))


@dataclass(frozen=True)
class _Ranges:
    """What the values of a column leave of a word: table[2i + 1] for thresholds[i], table[2i] for what is below it."""

    column: str
    divisor: int  # 0: none
    thresholds: I64
    table: np.ndarray
    null: np.uint64


@lru_cache(maxsize=8192)
def _ranges(block: Block) -> tuple[tuple[_Ranges, ...], tuple[int, ...]]:
    """The tables of a block, and the bits that need DuckDB."""
    compared: dict[_Compared, list[tuple[int, str, int]]] = {}
    others = []
    for bit, alternatives in enumerate(block.bits):
        parts = _comparisons(alternatives)
        if parts is None:
            others.append(bit)
            continue
        for column, operator, number in parts:
            compared.setdefault(column, []).append((bit, operator, number))
    return tuple(_table(*of, parts) for of, parts in compared.items()), tuple(others)


def _comparisons(alternatives: Bit) -> list[_Comparison] | None:
    """What the columns are compared with, if a bit asks for nothing else."""
    if len(alternatives) > 1:
        return None
    found = []
    for condition in (part for each in alternatives for part in conjuncts(each)):
        comparison = _comparison(condition)
        if comparison is None:
            return None
        found.append(comparison)
    return found


def _comparison(condition: Expression) -> _Comparison | None:
    condition = unnested(condition)
    if isinstance(condition, ColumnRef) and condition.type == "boolean":  # as materialized stores keep filters
        return (condition.label, 0), "=", 1
    if not isinstance(condition, Operation) or condition.operator not in COMPARISONS:
        return None
    one, other, operator = *map(unnested, condition.operands), condition.operator
    if _compared(one) is None:
        one, other, operator = other, one, COMPARISONS[operator]
    compared, number = _compared(one), constant(_whole(other))
    if compared is None or number is None or not is_integer(number.type):
        return None
    return compared, operator, int(number.number)


def _compared(expression: Expression) -> _Compared | None:
    """An integer column, or its remainder by a constant above 0."""
    expression = _whole(expression)
    if isinstance(expression, ColumnRef):
        return (expression.label, 0) if is_integer(expression.type) else None
    if not isinstance(expression, Sql) or expression.fragments != ("(", " % ", ")"):
        return None
    inner, number = _whole(expression.operands[0]), constant(_whole(expression.operands[1]))
    if not isinstance(inner, ColumnRef) or not is_integer(inner.type) or number is None:
        return None
    return (inner.label, int(number.number)) if is_integer(number.type) and number.number > 0 else None


def _whole(expression: Expression) -> Expression:
    """The expression without parentheses, and without conversions of integers to wider ones."""
    expression = unnested(expression)
    while isinstance(expression, Cast) and expression.exact and is_integer(expression.type):
        expression = unnested(expression.operands[0])
    return expression


def _table(column: str, divisor: int, parts: list[tuple[int, str, int]]) -> _Ranges:
    thresholds = np.unique(np.array([number for _, _, number in parts], np.int64))
    places = np.arange(2 * len(thresholds) + 1)
    table = np.full(len(places), ~np.uint64(0))
    null = ~np.uint64(0)
    for bit, operator, number in parts:
        at = 2 * int(np.searchsorted(thresholds, number)) + 1
        passes = {
            "=": places == at,
            "<>": places != at,
            "<": places < at,
            "<=": places <= at,
            ">": places > at,
            ">=": places >= at,
        }[operator]
        cleared = ~(np.uint64(1) << np.uint64(bit))
        table[~passes] &= cleared
        null &= cleared
    return _Ranges(column, divisor, thresholds, table, null)


def evaluated(rows: pa.RecordBatch, expressions: Sequence[Expression]) -> Evaluated:
    return evaluate(rows, [each.text for each in expressions])


def evaluate_block(
    rows: pa.RecordBatch, block: Block, evaluating: _Evaluate = evaluated
) -> tuple[Words, dict[str, int]]:
    """The word of each row, and for each filter on how many rows it could not be evaluated (it is false there)."""
    tables, others = _ranges(block)
    words = np.full(rows.num_rows, np.uint64(all_bits(block)))
    for ranges in tables:
        column = rows.column(ranges.column)
        valid = np.asarray(column.is_valid()).astype(np.uint8) if column.null_count else EVERY_ROW
        if column.type != pa.int64():
            column = column.cast(pa.int64(), safe=False)
        values = fixed_width(column, np.int64)
        if ranges.divisor:
            values = np.fmod(values, ranges.divisor)  # with the sign of the dividend, as in SQL
        narrow_words(values, valid, ranges.thresholds, ranges.table, ranges.null, words)
    failures: dict[str, int] = {}
    if others:
        conditions = list({each.text: each for bit in others for each in block.bits[bit]}.values())
        found = evaluating(rows, conditions)
        passed = {}
        for text, values, failed in zip((each.text for each in conditions), found.values, found.failures, strict=True):
            passed[text] = fixed_width(values.cast(pa.bool_()).fill_null(False).cast(pa.uint8()), np.uint8)
            failures[text] = failed
        for bit in others:
            false = np.ones(rows.num_rows, bool)
            for each in block.bits[bit]:
                false &= passed[each.text] == 0
            words[false] &= ~(np.uint64(1) << np.uint64(bit))
    return words.astype(word_type(block), copy=False), failures


def fold(words: list[Words | None], rows: int) -> np.ndarray:
    """For each row which of several words have a bit left, one bit a word; None stands for words that all have.

    More words than bits share bits: the answer may then be yes where it should be no, never the other way."""
    folded = np.zeros(rows, np.uint64)
    for number, each in enumerate(words):
        bit = np.uint64(1) << np.uint64(number % WIDEST)
        if each is None:
            folded |= bit
        else:
            folded[each != 0] |= bit
    return folded
