"""Tokens and names with their places, as plain values: only sql/parse knows the parser's nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from watersmeet.sql.site import Span

WINDOW = "window()"  # the name of Spark's window(…) and window.start in the tree, which no column has
# Functions whose first argument may be a unit, which is a word and no column.
WITH_UNIT = ("timestampdiff", "datediff", "date_diff", "timestampadd", "dateadd", "date_add")
WINDOW_FIELDS = {"start": False, "end": True}  # of window(…), and whether each is its end


@dataclass(frozen=True)
class Token:
    kind: str  # word, quoted, string, number or symbol
    text: str
    start: int
    end: int
    parsed: tuple[Any, ...] = field(default=(), compare=False, repr=False)  # what the parser has for it

    @property
    def span(self) -> Span:
        return self.start, self.end

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def means(self, *words: str) -> bool:
        """Is it one of these words or symbols, and not a string or a quoted name that looks like one?"""
        return self.kind in ("word", "symbol") and self.text.upper() in words


@dataclass(frozen=True)
class Name:
    text: str
    span: Span
