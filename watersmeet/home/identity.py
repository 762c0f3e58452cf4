"""The identity of a home: a tag that its copies and its new place keep, and that no other home has."""

from __future__ import annotations

import contextlib
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.files import replace_durably
from watersmeet.home.manifest import Manifest, load_newest


def tag_of(home: Path, manifest: Manifest) -> str:
    """The tag of a home, or nothing if no engine has started there. Until the first tick only a file has it."""
    with contextlib.suppress(OSError):
        return manifest.tag or (home / layout.IDENTITY).read_text("ascii", "replace").strip()
    return ""


def keep_tag(home: Path, tag: str) -> None:
    """Write the tag of a new home down, before anything outside of it has the tag."""
    if not (home / layout.IDENTITY).exists():
        replace_durably(home / layout.IDENTITY, tag.encode())


def is_home_with(home: Path, tag: str) -> bool:
    """Whether a folder is a home that has this tag, as far as that can be seen."""
    with contextlib.suppress(OSError, StateError):
        return layout.is_home(home) and tag_of(home, load_newest(home)) == tag
    return False
