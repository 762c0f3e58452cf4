"""Patterns: LIKE as DuckDB writes it, and the regular expressions on which Java (Spark) and RE2 (DuckDB) agree."""

from __future__ import annotations

import re

from watersmeet.sql.spark_types import Unsupported

_LINE_END = r"\n\r\x{85}\x{2028}\x{2029}"
_HINT = "use plain characters, ., [a-z], [^a-z], \\d, \\w, groups, |, *, +, ?, {n,m}, ^ at the start and $ at the end"
# One piece of a regular expression and what may stand behind it.
_CLASS = r"\[\^?(?:[^\[\]\\&^-]|\\[dw.\\\[\]^$()*+?{}|-]|[A-Za-z0-9]-[A-Za-z0-9])+-?\]"
_PIECE = re.compile(
    rf"(?P<class>{_CLASS})|(?P<dot>\.)|(?P<escape>\\[dDwW])|(?P<space>\\s)|(?P<plain>\\[.\\\[\]^$()*+?{{}}|/-])|(?P<open>\((?:\?:)?)|(?P<close>\))"
    r"|(?P<or>\|)|(?P<quantifier>(?:[*+?]|\{\d{1,2}(?:,\d{0,2})?\})\??)|(?P<character>[^\\\[\](){}*+?|^$.])"
)


def like_pattern(pattern: str, escape: str) -> tuple[str, bool]:
    """The same pattern with a backslash as its escape character, and whether it has one."""
    if len(escape) != 1 or escape in "%_":
        raise Unsupported(f"{escape!r} cannot be the escape character of LIKE", "use a backslash or another character")
    out, at, escaped = [], 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise Unsupported(
                    f"the escape character in LIKE {pattern!r} stands before nothing to escape", "double it"
                )
            char, escaped = pattern[at], True
            out.append("\\" + char if char in "%_\\" else char)
        elif char == "\\":
            out.append("\\\\")
            escaped = True
        else:
            out.append(char)
        at += 1
    return "".join(out), escaped


def regular_expression(pattern: str, *, whole_match: bool) -> str:
    """The pattern for RE2; raises Unsupported where the two could differ.

    `whole_match`: it matters which characters match, and not only whether some do."""
    out: list[str] = []
    body = pattern
    if body.startswith("^"):
        out.append(r"\A")
        body = body[1:]
    ends = body.endswith("$") and not body.endswith("\\$")
    body = body[:-1] if ends else body
    if (ends or out) and "|" in re.sub(r"\\.|\[[^\]]*\]|\([^()]*\)", "", body):
        raise Unsupported("^ or $ beside | is not supported", "put the alternatives in parentheses")
    at, previous, depth = 0, "", 0
    while at < len(body):
        match = _PIECE.match(body, at)
        kind = match.lastgroup if match else None
        if not match or kind is None:
            raise Unsupported(f"the regular expression {pattern!r} is not supported", _HINT)
        depth += (kind == "open") - (kind == "close")
        if kind == "quantifier" and previous in ("", "open", "or", "quantifier"):
            raise Unsupported(f"the regular expression {pattern!r} is not supported", _HINT)
        if kind == "quantifier" and previous == "close" and whole_match:
            raise Unsupported(f"a repeated group in {pattern!r} is not supported", "repeat a single character or class")
        if (kind in ("close", "or") and previous in ("open", "or")) or depth < 0:
            raise Unsupported(f"the regular expression {pattern!r} is not supported", _HINT)
        text = match[0]
        out.append({"dot": f"[^{_LINE_END}]", "space": r"[ \t\n\x0B\f\r]"}.get(kind, text))
        previous, at = kind, match.end()
    if depth or previous == "or":
        raise Unsupported(f"the regular expression {pattern!r} is not supported", _HINT)
    if whole_match and (ends or not body or re.search(pattern, "")):
        raise Unsupported(
            f"the regular expression {pattern!r} may match nothing or a line's end",
            "let it match at least one character",
        )
    if ends:
        out.append(rf"(?:\r\n|[{_LINE_END}])?\z")
    return "".join(out)
