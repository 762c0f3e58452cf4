"""Numeric predicates as programs: what they mean, when float64 is good enough for them, and how they are arranged.

A program lists operations of a stack machine, operands before operations. `is_safe` decides beforehand whether float64
gives SQL's result for all rows at hand: from the least and the largest value of each operand it follows how large any
intermediate value can be. `arranged` makes codes for the loop of store/blocks.py: what depends on one side alone is
computed outside of that loop, once for each row instead of once for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from watersmeet.model.predicate import Program

EXACT = float(1 << 53)  # all whole numbers below are float64s, and none above is rounded to one of them
_LEAVES = ("row", "number")
_UNARY = ("neg", "abs", "not")
OPERATIONS = ("+", "-", "*", "<", "<=", ">", ">=", "=", "<>", "and", "or", "reversed -")
_EXCHANGED = {
    **{"+": "+", "*": "*", "=": "=", "<>": "<>", "and": "and", "or": "or", "-": "reversed -"},
    **{"<": ">", ">": "<", "<=": ">=", ">=": "<="},
}
_PUSH_COLUMN, _PUSH_NUMBER, _WITH_TOP, _WITH_COLUMN, _WITH_NUMBER, _ALONE = range(6)


def is_safe(program: Program, lows: list[float], highs: list[float]) -> bool:
    """Whether float64 gives SQL's answer, if operand i is between lows[i] and highs[i].

    The argument of an arithmetic operation is the largest result that its type holds."""
    stack: list[tuple[float, float]] = []
    for name, argument in program:
        if name == "row":
            stack.append((lows[int(argument)], highs[int(argument)]))
        elif name == "number":
            stack.append((argument, argument))
        elif name in ("neg", "abs"):
            low, high = stack.pop()
            stack.append((-high, -low) if name == "neg" else (0.0, max(abs(low), abs(high))))
            if argument and not max(-stack[-1][0], stack[-1][1]) <= argument:  # the least number has no opposite
                return False
        elif name in ("+", "-", "*"):
            (b, d), (a, c) = stack.pop(), stack.pop()
            corners = {"+": (a + b, c + d), "-": (a - d, c - b), "*": (a * b, a * d, c * b, c * d)}[name]
            stack.append((min(corners), max(corners)))
            if not max(-stack[-1][0], stack[-1][1]) <= argument:
                return False
        elif name != "not":
            stack.pop()
            stack[-1] = (0.0, 1.0)
    return True


@dataclass(frozen=True)
class Arranged:
    """Codes over numbers (the programs of `fixed`, for one partial result) and columns (those of `columns`)."""

    codes: np.ndarray
    depth: int
    fixed: tuple[Program, ...]
    columns: tuple[Program, ...]


@lru_cache(maxsize=4096)
def arranged(program: Program, left: int) -> Arranged:
    """A program whose operands below `left` are known for each partial result, and the others for each stored row."""
    return _Arranging(left).arrange(program)


def computed(program: Program, operands: list[np.ndarray], rows: int) -> np.ndarray:
    """The value of a program for each row."""
    stack: list[np.ndarray] = []
    for name, argument in program:
        if name == "row":
            stack.append(operands[int(argument)])
        elif name == "number":
            stack.append(np.full(rows, argument))
        elif name in _UNARY:
            one = stack.pop()
            stack.append(-one if name == "neg" else np.abs(one) if name == "abs" else 1.0 - one)
        else:
            other, one = stack.pop(), stack.pop()
            stack.append(np.asarray(_NUMPY[name](one, other), np.float64))
    return stack[0]


_NUMPY = {
    **{"+": np.add, "-": np.subtract, "*": np.multiply, "and": np.multiply, "or": np.maximum},
    **{"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal, "<>": np.not_equal},
}


@dataclass(frozen=True)
class _Node:
    name: str
    argument: float
    children: tuple[_Node, ...]

    def program(self) -> Program:
        below = tuple(one for child in self.children for one in child.program())
        return (*below, (self.name, self.argument))


class _Arranging:
    def __init__(self, left: int) -> None:
        self.left = left
        self.fixed: dict[Program, int] = {}
        self.columns: dict[Program, int] = {}
        self.codes: list[tuple[int, int, int]] = []
        self.depth = self.deepest = 0

    def arrange(self, program: Program) -> Arranged:
        self._emit(_tree(program))
        assert self.depth == 1, f"{program} leaves {self.depth} values"
        codes = np.array(self.codes, np.int64).reshape(-1, 3)
        return Arranged(codes, self.deepest, tuple(self.fixed), tuple(self.columns))

    def _emit(self, node: _Node) -> None:
        number, column = self._number(node), self._column(node)
        if number is not None or column is not None:
            how, argument = (_PUSH_NUMBER, number) if column is None else (_PUSH_COLUMN, column)
            self.codes.append((how, 0, argument or 0))
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
        elif len(node.children) == 1:
            self._emit(node.children[0])
            self.codes.append((_ALONE, _UNARY.index(node.name), 0))
        else:
            self._binary(node.name, *node.children)

    def _binary(self, name: str, one: _Node, other: _Node) -> None:
        if self._number(other) is None and self._number(one) is not None:
            name, one, other = _EXCHANGED[name], other, one
        self._emit(one)
        number, column = self._number(other), self._column(other)
        if number is not None:
            self.codes.append((_WITH_NUMBER, OPERATIONS.index(name), number))
        elif column is not None:
            self.codes.append((_WITH_COLUMN, OPERATIONS.index(name), column))
        else:
            self._emit(other)
            self.codes.append((_WITH_TOP, OPERATIONS.index(name), 0))
            self.depth -= 1

    def _number(self, node: _Node) -> int | None:
        """Its place among the numbers, where it depends on the partial result alone or on nothing."""
        program = node.program()
        if any(name == "row" and argument >= self.left for name, argument in program):
            return None
        return self.fixed.setdefault(program, len(self.fixed))

    def _column(self, node: _Node) -> int | None:
        program = node.program()
        read = [argument for name, argument in program if name == "row"]
        if not read or any(argument < self.left for argument in read):
            return None
        return self.columns.setdefault(program, len(self.columns))


def _tree(program: Program) -> _Node:
    stack: list[_Node] = []
    for name, argument in program:
        count = 0 if name in _LEAVES else 1 if name in _UNARY else 2
        children = tuple(stack[len(stack) - count :])
        del stack[len(stack) - count :]
        stack.append(_Node(name, argument, children))
    assert len(stack) == 1, f"{program} leaves {len(stack)} values"
    return stack[0]
