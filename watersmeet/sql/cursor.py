"""A walk over the tokens of one statement, for the grammar that no SQL dialect has."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model.secrets import KINDS, reference
from watersmeet.sql.site import Site, backticks_hint
from watersmeet.sql.syntax import Token


class Cursor:
    """A place among the tokens of one statement."""

    def __init__(self, site: Site, tokens: Sequence[Token]) -> None:
        self.site = site
        self.tokens = tuple(tokens)
        self.at = 0

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def peek_kind(self) -> str:
        token = self.peek()
        return token.kind if token else ""

    def take(self, *words: str) -> Token | None:
        """Step over these words or symbols if they are all next, and give the first of them."""
        ahead = self.tokens[self.at : self.at + len(words)]
        if len(ahead) < len(words) or not all(token.means(word) for token, word in zip(ahead, words, strict=True)):
            return None
        self.at += len(words)
        return ahead[0]

    def expect(self, word: str, *, hint: str = "") -> Token:
        return self.take(word) or self._missing(word, hint)

    def _missing(self, what: str, hint: str = "") -> Token:
        found = self.peek()
        span = found.span if found else (self.tokens[-1].end, self.tokens[-1].end + 1)  # or just behind the last
        self.site.fail(span, f"expected {what}, found {found.text if found else 'the end'}", hint=hint)

    def name(self, kind: str) -> Token:
        token = self.peek()
        if token is None or token.kind not in ("word", "quoted"):
            hint = backticks_hint(token.text) if token is not None and token.kind == "string" else ""
            return self._missing(f"the name of a {kind}", hint)
        self.at += 1
        following = self.peek()
        # `a/b` and `9lives` are several tokens; say what names may be made of, not what was expected next.
        if kind in ("stream", "query") and following and following.means("/", ".", "-"):
            whole = self.tokens[min(self.at + 1, len(self.tokens) - 1)].end
            return Token("quoted", self.site.text[token.start : whole], token.start, whole)
        return token

    def string(self, what: str) -> Token:
        token = self.peek()
        if token is None or token.kind != "string":
            return self._missing(f"a {what} in quotes")
        self.at += 1
        return token

    def name_or_string(self, kind: str) -> Token:
        return self.string(kind) if self.peek_kind() == "string" else self.name(kind)

    def value(self) -> str:
        """An option's value: a string, a number, true or false, a bare word, or the name of a secret."""
        for kind in KINDS:
            if self.take(kind.upper(), "("):
                name = self.string("name")
                self.expect(")")
                return reference(kind, name.text)
        sign = "-" if self.take("-") else ""
        token = self.peek()
        if token is None or token.kind == "symbol" or (sign and token.kind != "number"):
            return self._missing("a value").text
        self.at += 1
        return token.text.lower() if token.is_word("TRUE", "FALSE") else sign + token.text

    def type_tokens(self) -> tuple[Token, ...]:
        """What stands up to the comma or parenthesis that ends a column's declaration."""
        start, depth = self.at, 0
        while token := self.peek():
            opens = token.kind == "symbol" and sum(char in "<(" for char in token.text)
            closes = token.kind == "symbol" and sum(char in ">)" for char in token.text)
            if depth == 0 and (token.means(",") or closes):
                break
            depth += int(opens) - int(closes)
            self.at += 1
        return self.tokens[start : self.at]

    def until(self, *words: str) -> tuple[Token, ...]:
        start = self.at
        while (token := self.peek()) and not token.means(*words):
            self.at += 1
        return self.tokens[start : self.at]

    def rest(self) -> tuple[Token, ...]:
        start, self.at = self.at, len(self.tokens)
        return self.tokens[start:]

    def finish(self) -> None:
        token = self.peek()
        if token:
            self.site.fail(token.span, f"unexpected {token.text}", hint="end the statement with ; before it")
