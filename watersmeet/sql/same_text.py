"""Whether two texts are the same but for comments, white space and the case of SQL's own words.

The case of a name counts, since an output is named as it was written.
"""

from __future__ import annotations

from watersmeet.errors import SqlError
from watersmeet.sql.parse import tokenize
from watersmeet.sql.site import Site


def same_text(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return _words(one) == _words(other)
    except SqlError:  # one is of another version, and no SQL any more
        return False


# None of them names an output without AS.
# fmt: off
_WORDS = frozenset((
    "select", "distinct", "from", "where", "and", "or", "not", "as", "join", "inner", "left", "right", "full",
    "outer", "cross", "semi", "anti", "natural", "on", "using", "group", "by", "having", "order", "limit", "offset",
    "union", "all", "intersect", "except", "with", "in", "exists", "between", "like", "is", "null", "case", "when",
    "then", "else",
))
# fmt: on


def _words(text: str) -> list[str]:
    found: list[str] = []
    for token in tokenize(Site(text), text):
        written = text[token.start : token.end]
        folded = written.lower()
        named = bool(found) and found[-1] == "as"
        found.append(folded if folded in _WORDS and not named else written)
    return found
