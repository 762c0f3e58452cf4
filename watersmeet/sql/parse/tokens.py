"""Tokens of Spark's SQL."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from watersmeet.sql.site import Site
from watersmeet.sql.syntax import WINDOW, Token

_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "POSITION")  # with words between arguments


_Base: Any = Spark.Parser


class _Parser(_Base):  # type: ignore[misc]
    """Leaves every call as it was written: what a function means is a matter of sql/functions/ alone.

    A comma between tables is a join of the kind COMMA, and nothing may be missing behind a comma. USING has names in
    parentheses, and a type is remembered as it was written: the parser knows those of all dialects.
    """

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    FUNCTION_PARSERS = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SYNTAX}  # noqa: RUF012
    NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012

    def _parse_join(self, *arguments: Any, **options: Any) -> Any:
        comma = self._curr if self._curr and self._curr.token_type == TokenType.COMMA else None
        join = super()._parse_join(*arguments, **options)
        if comma and join is None:
            self.raise_error("Expected a table behind the comma", comma)
        elif comma:
            join.set("kind", "COMMA")
        return join

    def _parse_csv(self, parse_method: Any, sep: Any = TokenType.COMMA) -> list[Any]:
        commas: list[Any] = []

        def parse() -> Any:
            if self._prev and self._prev.token_type == sep and self._index > start:
                commas.append(self._prev)
            found = parse_method()
            if found is None and commas:
                self.raise_error("Expected an expression behind the comma", commas[-1])
            return found

        start = self._index
        return list(super()._parse_csv(parse, sep))

    def _parse_using_identifiers(self) -> list[Any]:
        opened = self._curr
        if not opened or opened.token_type != TokenType.L_PAREN:
            self.raise_error("Expected ( behind USING", opened)
        names = list(self._parse_wrapped_csv(self._parse_id_var))
        if not names:
            self.raise_error("Expected a column behind USING", self._prev)
        return names

    def _parse_types(self, *arguments: Any, **options: Any) -> Any:
        first = self._curr
        found = super()._parse_types(*arguments, **options)
        # A literal like 10L is three tokens, of which BIGINT is not written.
        if isinstance(found, exp.DataType) and first and self._find_sql(first, first) == first.text:
            found.meta["written"] = self._find_sql(first, self._prev)
        return found


class _Dialect(Spark):
    Parser = _Parser


SPARK = _Dialect()
_LEXEME = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|.", re.DOTALL)


def tokenize(site: Site, text: str) -> tuple[Token, ...]:
    """The tokens of a text, where a doubled quote inside a string is one quote, as in Spark 4.

    A byte order mark, which some editors begin a file with, is a space."""
    text = text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text
    try:
        found = SPARK.tokenize(text)
    except SqlglotError:
        start = _unclosed(text)
        site.fail((start, start + 1), "this quote or comment is never closed", hint="close it before the end")
    tokens: list[Token] = []
    for token in found:
        start, end = token.start, token.end + 1
        last = tokens[-1] if tokens else None
        if last and start < last.end:  # sqlglot makes three tokens of a literal like 10L
            tokens[-1] = replace(last, parsed=(*last.parsed, token))
            continue
        kind = _kind(token.token_type, text[start])
        if last and last.end == start and kind == last.kind == "string":
            whole = last.parsed[0]
            whole.text, whole.end = last.text + text[start] + token.text, token.end
            tokens[-1] = Token("string", whole.text, last.start, end, (whole,))
        else:
            tokens.append(Token(kind, token.text, start, end, (token,)))
    return tuple(tokens)


def _kind(kind: Any, first: str) -> str:
    known = {TokenType.STRING: "string", TokenType.IDENTIFIER: "quoted", TokenType.NUMBER: "number"}
    return known.get(kind) or ("word" if first.isalnum() or first == "_" else "symbol")


def _unclosed(text: str) -> int:
    for match in _LEXEME.finditer(text):
        if match[0] in "'\"`" or (text.startswith("/*", match.start()) and len(match[0]) == 1):
            return match.start()
    return max(0, len(text) - 1)


def parser_tree(text: str, tokens: tuple[Token, ...]) -> list[Any]:
    """What the parser makes of these tokens of a text; raises its own errors."""
    for token, after in pairwise(tokens):
        if token.is_word("WINDOW") and after.means("(", "."):  # a name, where the parser would begin a clause
            token.parsed[0].token_type, token.parsed[0].text = TokenType.VAR, WINDOW
    return list(SPARK.parser().parse([each for token in tokens for each in token.parsed], text))
