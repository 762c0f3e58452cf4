"""Secrets in options: `env('NAME')` and `file('PATH')` are stored as they are written and resolved where a process
connects. Whatever a library says may have them in it, so every text that leaves a connector is redacted first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from watersmeet.errors import ModelError

_REFERENCE = re.compile(r"(env|file)\('((?:[^']|'')*)'\)")
_HIDDEN = "***"
_resolved: set[str] = set()  # values that this process has seen


def reference(kind: str, name: str) -> str:
    """The text of a reference, in which it is stored and shown."""
    quoted = name.replace("'", "''")
    return f"{kind}('{quoted}')"


def is_reference(value: str) -> bool:
    return _REFERENCE.fullmatch(value) is not None


def resolved(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options with their values, for a connection."""
    return {name: _value(name, value) for name, value in options}


def _value(option: str, text: str) -> str:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    kind, name = found[1], found[2].replace("''", "'")
    if kind == "env":
        if name not in os.environ:
            raise ModelError(
                f"option {option}: the environment variable {name} is not set",
                hint="set it for the engine, and on a cluster for the processes of its workers",
            )
        value = os.environ[name]
    else:
        try:
            value = Path(name).read_text("utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as problem:
            why = getattr(problem, "strerror", "") or "it is not text"
            raise ModelError(f"option {option}: the file {name} cannot be read: {why}") from None
    if value:
        _resolved.add(value)
    return value


def redacted(text: str) -> str:
    """A text without the secrets that this process has resolved."""
    for secret in sorted(_resolved, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text
