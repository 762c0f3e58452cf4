"""A conjunct over two aliases that is no equality becomes a Predicate: its text for either order of the two rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.errors import SqlError
from watersmeet.model import CROSS, Band, KeyPart, Predicate, Registered, Theta
from watersmeet.model.predicate import LEFT, RIGHT
from watersmeet.model.types import arrow_type, common_key_type, is_integer
from watersmeet.sql.adapter.bands import Difference, difference_of
from watersmeet.sql.adapter.program import program_of
from watersmeet.sql.bind import Binder, duckdb_type
from watersmeet.sql.scope import Member, Scope
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Reference, Scalar


@dataclass(frozen=True)
class Pair:
    """Two members of a query, in the order of its FROM, and what is needed to understand a condition on them."""

    site: Site
    scope: Scope
    binder: Binder
    left: Member
    right: Member

    def mirrored(self) -> Pair:
        return Pair(self.site, self.scope, self.binder, self.right, self.left)


def cross_product(left: Member, right: Member) -> Predicate:
    return Predicate(left.alias, right.alias, CROSS, CROSS)


def make_predicate(pair: Pair, scalar: Scalar) -> Predicate:
    return Predicate(pair.left.alias, pair.right.alias, _theta(pair, scalar), _theta(pair.mirrored(), scalar))


def call_predicate(pair: Pair, function: Registered, arguments: tuple[Scalar, ...]) -> Predicate:
    """A call of a registered predicate."""
    return Predicate(
        pair.left.alias, pair.right.alias, _call(pair, function, arguments), _call(pair.mirrored(), function, arguments)
    )


def _call(pair: Pair, function: Registered, arguments: tuple[Scalar, ...]) -> Theta:
    columns = _Columns(pair)
    texts = []
    for argument in arguments:
        pair.binder.check_functions(argument)
        texts.append(argument.duckdb(pair.site, columns.rename))
        pair.binder.type_of(argument, texts[-1], columns.types)
    shown = f"{function.name}({', '.join(texts)})"
    return Theta(shown, columns.of(LEFT), columns.of(RIGHT), strict=True, function=function, arguments=tuple(texts))


class _Columns:
    """The columns of two rows that some expressions read."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.read: dict[str, dict[str, KeyPart]] = {LEFT: {}, RIGHT: {}}

    def rename(self, reference: Reference) -> tuple[str, ...]:
        resolved = self.pair.scope.resolve(reference)
        side = LEFT if resolved.member is self.pair.left else RIGHT
        name = resolved.column.name
        self.read[side][name] = KeyPart(_quoted(name), resolved.column.type, name)
        return side + name, *resolved.fields

    def of(self, side: str) -> tuple[KeyPart, ...]:
        return tuple(sorted(self.read[side].values()))

    @property
    def kinds(self) -> dict[str, str]:
        return {side + name: part.type for side, parts in self.read.items() for name, part in parts.items()}

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {name: arrow_type(kind) for name, kind in self.kinds.items()}


def _theta(pair: Pair, scalar: Scalar) -> Theta:
    columns = _Columns(pair)
    text = scalar.duckdb(pair.site, columns.rename)
    kind = pair.binder.type_of(scalar, text, columns.types)
    if kind != "boolean":
        pair.site.fail(scalar.span, f"this condition is {kind.upper()}, not BOOLEAN", hint="compare it with a value")
    left, right = columns.of(LEFT), columns.of(RIGHT)
    operands = {LEFT + str(part.column): at for at, part in enumerate(left)}
    operands |= {RIGHT + str(part.column): len(left) + at for at, part in enumerate(right)}
    program, strict = program_of(text, columns.kinds, operands)
    difference = difference_of(text)
    band = _band(pair, scalar, difference) if difference else None
    return Theta(text, left, right, band, program, strict)


def _band(pair: Pair, scalar: Scalar, found: Difference) -> Band | None:
    """The band that a difference is, if its two sides are of a type that a sorted index can hold."""
    kinds = []
    for member, text in ((pair.left, found.left), (pair.right, found.right)):
        columns = {column.name: column.arrow for column in member.stream.columns}
        try:
            kinds.append(pair.binder.type_of(scalar, text, columns))
        except SqlError:  # an INTERVAL, say: as a part of a condition it is all right
            return None
    common = common_key_type(*kinds)
    if common is None:
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
    # Whole numbers leave out an end by starting one behind it; of others the end itself is tested.
    step = 0 if kind == "double" else 1
    low = None if found.low is None else found.low + (step if found.low_open else 0)
    high = None if found.high is None else found.high - (step if found.high_open else 0)
    # Sums of integers may overflow, which only the text itself finds out; numbers with a point are rounded.
    proves = found.compares and (kind == "timestamp" or (kind == "bigint" and not found.shifted))
    left, right = _cast(found.left, kinds[0], kind), _cast(found.right, kinds[1], kind)
    return Band(left, right, low, high, proves)


def _cast(text: str, kind: str, wanted: str) -> KeyPart:
    column = text[1:-1] if arrow_type(kind) == arrow_type(wanted) and _is_column(text) else None
    if arrow_type(kind) == arrow_type(wanted):
        return KeyPart(text, wanted, column)
    return KeyPart(f"TRY_CAST({text} AS {duckdb_type(wanted)})", wanted)


def _is_column(text: str) -> bool:
    return text.startswith('"') and text.endswith('"') and '"' not in text[1:-1]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
