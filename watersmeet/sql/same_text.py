"""Whether two texts are the same but for comments, white space and the case of words."""

from __future__ import annotations

from watersmeet.errors import SqlError
from watersmeet.sql.adapter import tokenize
from watersmeet.sql.site import Site


def same_text(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return _words(one) == _words(other)
    except SqlError:  # one is of another version, and no SQL any more
        return False


def _words(text: str) -> list[tuple[str, str]]:
    return [
        (token.kind, token.text.lower() if token.kind == "word" else token.text) for token in tokenize(Site(text), text)
    ]
