"""How values are spelled in the names of stores on disk.

The name of a store is made of all that its rows depend on, and a home is resumed only if a later version gives the same
store the same name. So a class that a name depends on says under which name and with which fields it is spelled:
neither another name of the class nor another field changes what stands on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

_HOW = "__identity__"  # of a class: the function that spells its values
C = TypeVar("C", bound=type)


def spelled_as(name: str, *fields: str) -> Callable[[C], C]:
    """A decorator of classes: their values are spelled by this name and these fields."""

    def spell(value: object) -> str:
        return f"{name}({', '.join(f'{field}={identity(getattr(value, field))}' for field in fields)})"

    def decorate(cls: C) -> C:
        setattr(cls, _HOW, spell)
        return cls

    return decorate


def identity(value: Any) -> str:
    """The spelling of a value; raises TypeError if a part of it has none."""
    how = getattr(type(value), _HOW, None)
    if how is not None:
        return str(how(value))
    match value:
        case tuple():
            return f"({', '.join(map(identity, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(identity, value))}]"
        case dict():
            return "{" + ", ".join(f"{identity(key)}: {identity(each)}" for key, each in value.items()) + "}"
        case None | bool() | int() | float() | str():
            return repr(value)
    raise TypeError(f"{type(value).__name__} has no spelling for names on disk (spelled_as)")


def digest(spelling: str, digits: int = 16) -> str:
    return hashlib.sha256(spelling.encode()).hexdigest()[:digits]
