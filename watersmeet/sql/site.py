"""The position of a piece of SQL, so that errors point into the user's file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from watersmeet.errors import ModelError, SourcePlace, SqlError
from watersmeet.model.stream import NAME_PATTERN

Span = tuple[int, int]  # start and end (exclusive) in the text of a Site


def in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def as_written(name: str) -> str:
    """A name as SQL has it: in backticks, unless it is a plain word."""
    return name if NAME_PATTERN.fullmatch(name) else in_backticks(name)


def backticks_hint(name: str, alias: str = "") -> str:
    """For a name in double quotes, which are quotes of a string."""
    return f"write names in backticks: {f'{alias}.' if alias else ''}{in_backticks(name)}"


@dataclass(frozen=True)
class Site:
    """A text and, where it was cut out of a script, its place there."""

    text: str
    origin: SourcePlace | None = None

    def place(self, span: Span) -> SourcePlace:
        if self.origin is None:
            return SourcePlace(self.text, span[0], span[1])
        base = self.origin.start
        return SourcePlace(self.origin.text, base + span[0], base + span[1], self.origin.file)

    def fail(self, span: Span, problem: str, *, detail: str = "", hint: str = "") -> NoReturn:
        raise SqlError(problem, detail=detail, hint=hint, place=self.place(span)) from None

    def adopt(self, span: Span, error: ModelError, *, hint: str = "") -> NoReturn:
        """Give a model's complaint the place it is about."""
        place = self.place(span)
        raise SqlError(error.problem, detail=error.detail, hint=error.hint or hint, place=place) from None


def did_you_mean(written: str, known: Iterable[str]) -> str:
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(written.lower(), folded, n=1)
    return f"did you mean {as_written(folded[close[0]])}?" if close else ""


def name_hint(site: Site, span: Span) -> str:
    """For an output without a name, which may be a column in double quotes."""
    written = site.text[span[0] : span[1]]
    is_in_quotes = written.startswith('"') and written.endswith('"')
    return "add AS and a name" + (f"; if it is a column, {backticks_hint(written[1:-1])}" if is_in_quotes else "")
