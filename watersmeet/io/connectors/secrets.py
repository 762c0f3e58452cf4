"""Secrets, resolved where a process connects. Whatever a library says may have them in it, so every text that leaves a
connector is redacted first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from watersmeet.errors import ModelError
from watersmeet.model.secrets import referenced

_HIDDEN = "***"
_seen: set[str] = set()  # values that this process has resolved


def resolved(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options with their values, for a connection."""
    return {name: _value(name, value) for name, value in options}


def _value(option: str, text: str) -> str:
    found = referenced(text)
    if found is None:
        return text
    value = _from_environment(option, found[1]) if found[0] == "env" else _from_file(option, found[1])
    if value:
        _seen.add(value)
    return value


def _from_environment(option: str, name: str) -> str:
    if name not in os.environ:
        raise ModelError(
            f"option {option}: the environment variable {name} is not set",
            hint="set it for the engine, and on a cluster for the processes of its workers",
        )
    return os.environ[name]


def _from_file(option: str, name: str) -> str:
    try:
        return Path(name).read_text("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", "") or "it is not text"
        raise ModelError(f"option {option}: the file {name} cannot be read: {why}") from None


def redacted(text: str) -> str:
    """A text without the secrets that this process has resolved."""
    for secret in sorted(_seen, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text
