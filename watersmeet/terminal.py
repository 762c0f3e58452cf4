"""Text from data, queries and errors, made harmless for a terminal."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

# Control characters (C0, DEL, C1), and those that change the direction in which text is shown.
_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str, keeping: str = "") -> str:
    """The text with what a terminal would obey as escapes such as \\x1b; `keeping` are characters that may stay."""
    return _ACTIVE.sub(lambda found: found[0] if found[0] in keeping else _escaped(found[0]), text)


def visible_lines(text: str) -> str:
    """Text of several lines, made harmless as by `visible`."""
    return visible(text, keeping="\n\t")


def json_text(value: Any) -> str:
    """JSON for a terminal or a program: readable letters stay, and what a terminal would obey is \\u009b."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return _ACTIVE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def resume_hint(home: Path, query: str) -> str:
    """What a message about a suspended query ends with."""
    return f"when that is solved: watersmeet resume --home {shlex.quote(str(home))} {query}"
