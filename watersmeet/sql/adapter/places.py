"""Where the nodes of a tree are in the text. Keywords leave no position in the tree, so tokens supply it."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from sqlglot import exp

from watersmeet.sql.site import Span
from watersmeet.sql.syntax import Name, Token


class Places:
    def __init__(self, tokens: tuple[Token, ...], length: int) -> None:
        self.tokens = tokens
        self.starts = [token.start for token in tokens]
        self.whole: Span = (tokens[0].start, tokens[-1].end) if tokens else (0, length)

    def name(self, node: Any) -> Name:
        return Name(node.name, self.span(node))

    def word(self, words: str) -> Span:
        """Where a keyword stands outside of all parentheses, or else anywhere."""
        hits: list[tuple[int, Span]] = []
        depth = 0
        for token in self.tokens:
            depth += token.means("(") - token.means(")")
            if token.kind == "word" and token.text.upper().split()[0] == words.split(maxsplit=1)[0]:
                hits.append((depth, token.span))
        return min(hits, default=(0, self.whole))[1]

    def span(self, node: Any, word: str = "") -> Span:
        """From the first to the last token known to belong to a node, with what its parentheses enclose."""
        marks = [inner.meta for inner in node.walk() if "start" in inner.meta]
        if not marks:
            return self.word(word.upper()) if word else self.whole
        start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks) + 1
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end) - 1
        if isinstance(node, exp.Func) and "start" not in node.meta and first > 1 and self.tokens[first - 1].means("("):
            first -= 2
        elif isinstance(node, exp.Query | exp.Case | exp.Lateral):
            opening = node.key.upper() if isinstance(node, exp.Case | exp.Lateral) else "SELECT"
            first = next((at for at in range(first, -1, -1) if self.tokens[at].is_word(opening)), first)
        depth = sum(token.means("(", "[") - token.means(")", "]") for token in self.tokens[first : last + 1])
        while depth > 0 and last + 1 < len(self.tokens):
            last += 1
            depth += self.tokens[last].means("(", "[") - self.tokens[last].means(")", "]")
        return self.tokens[first].start, self.tokens[last].end
