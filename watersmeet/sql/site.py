"""The position of a piece of SQL, so that errors point into the user's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from watersmeet.errors import ModelError, Place, SqlError

Span = tuple[int, int]  # start and end (exclusive) in the text of a Site


@dataclass(frozen=True)
class Site:
    """A text and, where it was cut out of a script, its place there."""

    text: str
    origin: Place | None = None

    def place(self, span: Span) -> Place:
        if self.origin is None:
            return Place(self.text, span[0], span[1])
        base = self.origin.start
        return Place(self.origin.text, base + span[0], base + span[1], self.origin.file)

    def fail(self, span: Span, problem: str, *, detail: str = "", hint: str = "") -> NoReturn:
        raise SqlError(problem, detail=detail, hint=hint, place=self.place(span))

    def adopt(self, span: Span, error: ModelError, *, hint: str = "") -> NoReturn:
        """Give a model's complaint the place it is about."""
        place = self.place(span)
        raise SqlError(error.problem, detail=error.detail, hint=error.hint or hint, place=place) from None
