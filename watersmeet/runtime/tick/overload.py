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


def says_no_memory(reason: str) -> bool:
    """Whether the text of an error is about memory of Python or of a library."""
    return any(word in reason for word in ("MemoryError", "OutOfMemoryException", "bad_alloc"))


def lost(problem: str) -> Overload:
    """Tasks have ended without an answer, for whichever query: the system ends a process that takes too much memory."""
    why = "perhaps for lack of memory (option task_memory)"
    hint = "if the system has no memory left, lower the option task_memory, and run again with the same home"
    return Overload.of((), f"{problem}, {why}", may_pass=True, hint=hint)


def out_of_memory(queries: Collection[str]) -> Overload:
    """A task has no memory left for work that these queries share; none: for work that belongs to all."""
    hint = "raise the option task_memory, or drop queries, and run again with the same home"
    return Overload.of(queries, "a task ran out of memory (option task_memory)", may_pass=True, hint=hint)
