"""Work that queries share takes too much: the tick is repeated without those that are at fault."""

from __future__ import annotations

from collections.abc import Collection

from watersmeet.errors import RunError


class Overload(RunError):
    """`queries` are to be suspended. `may_pass`: the work may succeed if it is repeated once by a task that is new."""

    queries: frozenset[str] = frozenset()
    may_pass = False

    @classmethod
    def of(cls, queries: Collection[str], problem: str, may_pass: bool = False, hint: str = "") -> Overload:
        error = cls(problem, hint=hint)
        error.queries, error.may_pass = frozenset(queries), may_pass
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return Overload.of, (self.queries, self.problem, self.may_pass, self.hint)


def out_of_memory(queries: Collection[str]) -> Overload:
    """A task has no memory left for work that these queries share; none: for work that belongs to all."""
    hint = "raise the option task_memory, or drop queries, and run again with the same home"
    return Overload.of(queries, "a task ran out of memory (option task_memory)", may_pass=True, hint=hint)
