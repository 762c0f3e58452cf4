"""Values of the data on a terminal."""

from __future__ import annotations

_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """A text without what a terminal would obey: control characters and escape sequences."""
    return text if text.isprintable() else "".join(each if each.isprintable() else _UNKNOWN for each in text)
