"""Small files that results depend on. The first line has a checksum of the rest, and how often the file was written.

A manifest names both, as they were at its commit. So the file may be newer than the manifest, but neither older nor
another one, nor gone.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from watersmeet.home.files import replace_durably


class Seal(NamedTuple):
    """What a manifest remembers of a sealed file."""

    generation: int
    checksum: int


def write_sealed(path: Path, content: Any) -> None:
    """Replace the file; it is on the disk afterwards."""
    before = seal_of(path)
    body = json.dumps(content, indent=1, ensure_ascii=False).encode()
    head = {"generation": before.generation + 1 if before else 1, "checksum": zlib.crc32(body)}
    replace_durably(path, json.dumps(head).encode() + b"\n" + body)


def read_sealed(path: Path) -> Any:
    """The content; ValueError where it is damaged. Earlier versions wrote it without a seal."""
    text = path.read_bytes()
    head, _, body = text.partition(b"\n")
    try:
        seal = _seal(head)
    except ValueError:
        return json.loads(text)
    if seal.checksum != zlib.crc32(body):
        raise ValueError("its checksum is wrong")
    return json.loads(body)


def seal_of(path: Path) -> Seal | None:
    """The seal of a file; None where there is no file, or one of an earlier version."""
    try:
        with path.open("rb") as file:
            return _seal(file.readline())
    except (FileNotFoundError, ValueError):
        return None


def _seal(head: bytes) -> Seal:
    try:
        found = json.loads(head)
        return Seal(int(found["generation"]), int(found["checksum"]))
    except (KeyError, TypeError):
        raise ValueError("it has no checksum") from None
