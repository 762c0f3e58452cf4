"""The closed table of what expressions may say. What is not in it is rejected.

An entry has names, a function that builds the typed expression from typed arguments, and examples: SQL in which
{int}, {string} … stand for columns of that type (tests/semantics/ has the list). The semantics suite runs every example
over extreme values here and in Spark, and docs/semantics.md lists them. A function enters the table with its examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.model.expression import Expression
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
ANY_NUMBER = 10_000


def entry(
    names: str | tuple[str, ...], family: str, counts: int | tuple[int, int], *examples: str
) -> Callable[[Build], Build]:
    """Declares a function by what follows: its names, how many arguments it takes, and examples."""
    fewest, most = (counts, counts) if isinstance(counts, int) else counts

    def declare(build: Build) -> Build:
        made = Entry(tuple(names.split()) if isinstance(names, str) else names, family, fewest, most, build, examples)
        for name in made.names:
            assert name not in TABLE, name
            TABLE[name] = made
        return build

    return declare


def entries() -> list[Entry]:
    """Each once, in the order of declaration."""
    return list(dict.fromkeys(TABLE.values()))


def build_call(name: str, arguments: list[Expression]) -> Expression:
    found = TABLE[name]
    if not found.fewest <= len(arguments) <= found.most:
        allowed = f"{found.fewest}" if found.fewest == found.most else f"{found.fewest} or more"
        raise Unsupported(
            f"{name} takes {allowed} arguments and has {len(arguments)}", f"write it like {found.examples[0]}"
        )
    return found.build(*arguments)
