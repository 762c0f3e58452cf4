"""Predicates: conditions over two aliases that are no equalities, for either order of the two rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.model import CROSS, Band, Expression, KeyPart, Predicate, Registered, Theta
from watersmeet.model.expression import call
from watersmeet.model.predicate import LEFT, RIGHT
from watersmeet.model.types import is_integer
from watersmeet.sql.bands import Difference, difference_of
from watersmeet.sql.lower.rows import JoinAlias, JoinScalars
from watersmeet.sql.programs import program_of
from watersmeet.sql.spark_types import FLOATS, wider
from watersmeet.sql.tree import Scalar


def cross_product(left: JoinAlias, right: JoinAlias) -> Predicate:
    return Predicate(left.alias, right.alias, CROSS, CROSS)


def make_predicate(scalars: JoinScalars, pair: Sequence[JoinAlias], node: Scalar) -> Predicate:
    """`pair` has the two members in the order of FROM."""
    condition = scalars.check.condition(node, _expression(scalars, pair, node))
    thetas = [_theta(each) for each in (condition, _mirrored(condition))]
    return Predicate(pair[0].alias, pair[1].alias, thetas[0], thetas[1])


def call_predicate(
    scalars: JoinScalars, pair: Sequence[JoinAlias], function: Registered, nodes: Sequence[Scalar]
) -> Predicate:
    """A call of a registered predicate."""
    arguments = []
    for node in nodes:
        scalars.check_functions(node)
        arguments.append(scalars.check.bound(node, _expression(scalars, pair, node)))
    thetas = [_call(function, each) for each in (tuple(arguments), tuple(map(_mirrored, arguments)))]
    return Predicate(pair[0].alias, pair[1].alias, thetas[0], thetas[1])


def _expression(scalars: JoinScalars, pair: Sequence[JoinAlias], node: Scalar) -> Expression:
    return scalars.expression(node, lambda member: LEFT if member is pair[0] else RIGHT)


def _mirrored(expression: Expression) -> Expression:
    """The same with the two rows exchanged."""
    return expression.renamed(lambda column: replace(column, row=RIGHT if column.row == LEFT else LEFT))


def _call(function: Registered, arguments: tuple[Expression, ...]) -> Theta:
    shown = call(function.name, arguments)
    return Theta(shown, _read(shown, LEFT), _read(shown, RIGHT), function=function, arguments=arguments)


def _read(expression: Expression, row: str) -> tuple[KeyPart, ...]:
    """The columns of a row that an expression reads."""
    bare = [replace(column, row="") for column in expression.columns if column.row == row]
    return tuple(KeyPart(column, column.type) for column in sorted(bare, key=str))


def _theta(condition: Expression) -> Theta:
    left, right = _read(condition, LEFT), _read(condition, RIGHT)
    operands = [(row, part.column) for row, parts in ((LEFT, left), (RIGHT, right)) for part in parts]
    program, strict = program_of(condition, lambda column: operands.index((column.row, column.name)))
    difference = difference_of(condition)
    band = _band(difference) if difference else None
    return Theta(condition, left, right, band=band, program=program, strict=strict)


def _band(found: Difference) -> Band | None:
    """The band that a difference is, if its two sides are of a type that a sorted index can hold."""
    left, right = found.left, found.right
    common = wider(left.type, right.type)
    if common is None or "string" in (left.type, right.type):
        return None
    whole = isinstance(found.low, int | None) and isinstance(found.high, int | None)
    if is_integer(common) and whole and not found.is_time:
        kind = "bigint"
    elif common in ("timestamp", "timestamp_ntz", "date") and (found.is_time or not found.shifted):
        kind = "timestamp"
    elif (common in ("float", "double") or "decimal" in common or is_integer(common)) and not found.is_time:
        kind = "double"
    else:
        return None
    if kind == "double" and found.nan_passes and (left.type in FLOATS or right.type in FLOATS):
        return None
    # Whole numbers leave out an end by starting one behind it; of others the end itself is tested.
    step = 0 if kind == "double" else 1
    low = None if found.low is None else found.low + (step if found.low_open else 0)
    high = None if found.high is None else found.high - (step if found.high_open else 0)
    # Sums of integers may overflow, which only the condition itself finds out; numbers with a point are rounded.
    proves = found.compares and (kind == "timestamp" or (kind == "bigint" and not found.shifted))
    return Band(KeyPart.of(left, kind), KeyPart.of(right, kind), low, high, proves)
