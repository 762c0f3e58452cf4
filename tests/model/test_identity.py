"""Names of stores stay the same whatever the classes are called that they are made of."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.model.expression import ColumnRef
from watersmeet.model.identity import digest, identity, spelled_as
from watersmeet.model.join import Alias, Output
from watersmeet.model.predicate import Band, Equality, KeyPart, Registered, Theta
from watersmeet.optimize.joingraph import Link
from watersmeet.plan.ruleset import KeptColumn

K, J = (KeyPart(ColumnRef(name, "BIGINT"), "BIGINT") for name in "kj")
_K, _J = (f"""KeyPart(expression='"{name}"', type='BIGINT', column='{name}')""" for name in "kj")
_BAND = f"Band(left={_K}, right={_J}, low=-2, high=None, proves=False)"
_THETA = (
    f"""Theta(text='"k"', left=({_K},), right=({_J},), band={_BAND}, """
    "program=(), strict=True, function=None, arguments=())"
)
THETA = Theta(ColumnRef("k", "BIGINT"), (K,), (J,), Band(K, J, -2, None))


@spelled_as("Before", "key", "width")
@dataclass(frozen=True)
class RenamedAndExtended:
    width: int
    key: str
    added: float = 0.5


@dataclass(frozen=True)
class Unspelled:
    width: int


def test_neither_another_name_nor_another_field_changes_a_spelling() -> None:
    value = RenamedAndExtended(7, "k")
    assert identity(value) == "Before(key='k', width=7)"
    assert identity(((value,), [1.5, True], {"a": None})) == "((Before(key='k', width=7),), [1.5, True], {'a': None})"


def test_a_part_without_a_spelling_is_an_error() -> None:
    with pytest.raises(TypeError, match="Unspelled has no spelling"):
        identity(("r", [Unspelled(2)]))


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (ColumnRef("k", "BIGINT", "r"), "'\"r.k\"'"),
        (THETA, _THETA),
        (Alias("a", "r", 5), "Alias(name='a', stream='r', window=5, filter=None)"),
        (Output("x", "BIGINT", K.expression), """Output(name='x', type='BIGINT', expression='"k"')"""),
        (Equality("a", "b", K, J), f"Equality(left='a', right='b', left_key={_K}, right_key={_J})"),
        (Link(("r", K), ("s", J)), f"Link(left=('r', {_K}), right=('s', {_J}), theta=None)"),
        (Accumulator("sum", K.expression), """Part(function='sum', argument='"k"', filter=None)"""),
        (KeptColumn("x", 1, "key", "k", "INT"), "KeptColumn(name='x', member=1, kind='key', source='k', type='INT')"),
        (Registered("p", b"", "d", True, 2.0), "Registered(name='p', digest='d', by_row=True, seconds=2.0)"),
    ],
)
def test_spellings_that_names_on_disk_are_made_of(value: object, spelling: str) -> None:
    assert identity(value) == spelling


def test_digests() -> None:
    assert digest("") == "e3b0c44298fc1c14"
    assert digest("", 8) == "e3b0c442"
