"""All errors that users see: the position, the problem, what exists instead, what to do."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

_WIDEST = 400  # characters of a line that an error shows


@dataclass(frozen=True)
class SourcePlace:
    """A span of a SQL text, so that an error can point at it."""

    text: str
    start: int
    end: int
    file: str = ""

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}"
        return f"{self.file}, {where}" if self.file else where

    def picture(self) -> str:
        """The line of SQL with carets under the span."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        column = self.start - line_start
        width = max(1, min(self.end, line_start + len(line)) - self.start)
        if len(line) > _WIDEST:  # only what is around the span
            begin = max(0, column - _WIDEST // 2)
            line, column = line[begin : begin + _WIDEST], column - begin
            width = min(width, _WIDEST - column)
        return f"  {line}\n  {' ' * column}{'^' * width}"


class WatersmeetError(Exception):
    """Base of all errors of this package; `str()` is the whole message for the user.

    `watersmeet.errors` has its kinds: `SqlError` (the SQL text is invalid), `ModelError` (a stream or query contradicts
    itself or what is declared), `InputError` (a source delivered what cannot be read), `StateError` (the home is
    damaged, newer than this version, or in use) and `RunError` (a tick failed).

    Args:
        problem: what is wrong, in one line.
        detail: more about it, or what exists instead.
        hint: what to do.
        place: where in a SQL text, for `line`, `column` and a picture.

    Example:
        >>> try:
        ...     engine.query("wrong", "SELECT prize FROM bids [RANGE 1 SECOND]")
        ... except watersmeet.WatersmeetError as error:
        ...     print(type(error).__name__, error.place.line, error.place.column)
        SqlError 1 8
    """

    def __init__(self, problem: str, *, detail: str = "", hint: str = "", place: SourcePlace | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.detail = detail
        self.hint = hint
        self.place = place

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.problem}" if self.place else self.problem]
        if self.place:
            lines.append(self.place.picture())
        if self.detail:
            lines.append(self.detail)
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback, whose frames are those of this package."""
        return f"{type(self).__name__}: {self}".splitlines()

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors travel from tasks.
        return _rebuild, (type(self), self.problem, self.detail, self.hint, self.place)


def _rebuild(
    kind: type[WatersmeetError], problem: str, detail: str, hint: str, place: SourcePlace | None
) -> WatersmeetError:
    return kind(problem, detail=detail, hint=hint, place=place)


def internal(problem: Exception, place: SourcePlace) -> SqlError:
    """A defect of this program as an error of the one statement that met it, so that the others are still reported."""
    at = traceback.extract_tb(problem.__traceback__)[-1]
    return SqlError(
        f"internal error: {type(problem).__name__}: {str(problem)[:500]}",
        detail=f"This should not happen. It was raised by {Path(at.filename).name}, line {at.lineno} ({at.name}).",
        hint="write the statement otherwise, and please report it",
        place=place,
    )


class SqlError(WatersmeetError):
    """The SQL text is invalid, or uses something that is not supported."""


class ModelError(WatersmeetError):
    """A stream or query contradicts itself or what is already declared."""


class InputError(WatersmeetError):
    """A source delivered something that cannot be read as declared."""


class StateError(WatersmeetError):
    """The home folder is damaged, newer than this version, or in use."""


class RunError(WatersmeetError):
    """A tick failed; nothing of it was committed."""


REPLACE_FILE = "replace the file or move it away, and run again with the same home"  # the hint for damaged input


def restore_hint(what: str) -> str:
    """The hint for damaged state."""
    return f"restore {what} from a backup, or start with another --home"


def session_stopped() -> RunError:
    return RunError(
        "the Spark session was stopped",
        detail="What was committed is complete.",
        hint="make a new session, and with it a new engine on the same home: it resumes there",
    )
