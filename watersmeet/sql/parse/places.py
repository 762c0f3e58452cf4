"""Where the nodes of a tree are in the text. Keywords leave no position in the tree, so tokens supply it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from watersmeet.sql.site import Span
from watersmeet.sql.syntax import Name, Token

JOIN_WORDS = ("LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF", "JOIN")


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
            if token.kind == "word" and _begins(token, words):
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
        elif opening := _opening(node):
            first = next((at for at in range(first, -1, -1) if self.tokens[at].is_word(opening)), first)
        depth = sum(token.means("(", "[") - token.means(")", "]") for token in self.tokens[first : last + 1])
        while depth > 0 and last + 1 < len(self.tokens):
            last += 1
            depth += self.tokens[last].means("(", "[") - self.tokens[last].means(")", "]")
        return self.tokens[first].start, self.tokens[last].end

    def clause(self, words: str, nodes: Sequence[Any]) -> Span:
        """Where the word stands that opens a clause, before or in the first of the nodes that has a place."""
        placed = [self.span(node) for node in nodes if any("start" in inner.meta for inner in node.walk())]
        start, end = placed[0] if placed else self.whole
        opening = [token for token in self.tokens if token.kind == "word" and _begins(token, words)]
        inside = [token for token in opening if start <= token.start < end]
        before = [token for token in opening if token.start < start]
        found = [*inside[:1], *before[-1:], *opening[-1:]]
        return found[0].span if found else (start, end)

    def join_words(self, join: Any) -> Span:
        """The words of a join, or its comma: only for messages, since what a join means is in its fields."""
        start = self.span(dict.get(join.args, "this"))[0]
        at = bisect_left(self.starts, start) - 1
        while at >= 0 and self.tokens[at].means("("):
            at -= 1
        first = at
        while first > 0 and self.tokens[first].is_word(*JOIN_WORDS) and self.tokens[first - 1].is_word(*JOIN_WORDS):
            first -= 1
        return self.tokens[max(first, 0)].start, self.tokens[max(at, 0)].end


def _begins(token: Token, words: str) -> bool:
    """Some keywords of two words are one token."""
    return token.text.upper().split()[0] == words.split(maxsplit=1)[0]


def _opening(node: Any) -> str:
    """The word that opens a node, which has no position of its own. Looking for it is not reading the node's fields."""
    if isinstance(node, exp.Case | exp.Lateral):
        return str(node.key.upper())
    while isinstance(node, exp.Subquery | exp.SetOperation) and not dict.get(node.args, "with_"):
        node = dict.get(node.args, "this")
    if not isinstance(node, exp.Query):
        return ""
    return "WITH" if dict.get(node.args, "with_") else "SELECT" if isinstance(node, exp.Select) else ""
