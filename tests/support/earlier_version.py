"""Homes as an earlier version has left them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from watersmeet.home import layout


def with_positions(home: Path, name: str, lines: list[dict[str, Any]]) -> None:
    """Group 0 has a log of positions with these lines, without links, and no manifest has its mark."""
    layout.positions(home, "0").unlink()
    (home / layout.POSITIONS / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    for path in (home / layout.MANIFESTS).glob("*.json"):
        known = json.loads(path.read_text().partition("\n")[2])
        body = json.dumps({key: value for key, value in known.items() if key not in ("positions", "parts", "flushed")})
        path.write_text(json.dumps({"format": 5, "checksum": zlib.crc32(body.encode())}) + "\n" + body)


def lines_of(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in layout.positions(home, "0").read_text().splitlines()]
