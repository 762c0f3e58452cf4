"""Input that was moved, where Spark reads the files: its checkpoint has their absolute names.

A file under another name would be read a second time, and Spark does not even start: "Wrong basePath". So the names in
the checkpoint follow the folder, if it is the same one: it is gone from its old place, or its files have the dates that
they had there. Streams that tasks read themselves have names relative to the folder (io/positions.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.disk import sync_entries
from watersmeet.home.files import replace_durably
from watersmeet.io.sources import FILE_FORMATS
from watersmeet.model import Stream
from watersmeet.runtime.feed.spark_files import log_entries, logged_path


def follow_moved_input(home: Path, group: str, number: int, stream: Stream, address: Callable[[str], str]) -> None:
    """Let Spark's log of one source name the files where they are now. `address` is how Spark writes a path."""
    source = stream.source
    if source is None or source.format not in FILE_FORMATS or "://" in source.path:
        return
    logs = _logs(layout.source_log(home, group, number, 0).parent)
    newest = next((entry for log in reversed(logs) for entry in log_entries(log)), None)
    folder = _folder(source.path)
    if newest is None or folder in Path(logged_path(newest["path"])).parents:
        return
    old = _same_folder(Path(logged_path(newest["path"])), folder)
    known = [entry for log in logs for entry in log_entries(log)]
    if old is None or not (not old.exists() or _have_their_dates(known, old, folder)):
        before = old or Path(logged_path(newest["path"])).parent
        raise StateError(
            f"stream {stream.name} was read from {before}, and is now in {folder}",
            detail="The home knows the files by where they were; those of another folder may be the same or others.",
            hint="if it is the same input, move the folder or copy it with its dates (cp -a) under the same name; "
            "for other input use another stream name or another --home",
        )
    depth, here = len(old.parts), address(str(folder))
    for log in logs:  # a log without a checksum is read; one with that of another content is not
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    sync_entries([logs[0].parent])
    for log in logs:
        head, *lines = log.read_text().splitlines()
        moved = [_renamed(line, old, depth, here) for line in lines]
        replace_durably(log, "\n".join((head, *moved)).encode())


def _logs(folder: Path) -> list[Path]:
    """The files of Spark's log, the oldest first."""
    found = [path for path in folder.glob("*") if re.fullmatch(r"\d+(\.compact)?", path.name)]
    return sorted(found, key=lambda path: int(path.stem))


def _folder(path: str) -> Path:
    """The folder that all files of a source are below: of a pattern, the part before it."""
    fixed = Path(re.split(r"[*?\[{]", path, maxsplit=1)[0])
    if fixed.is_dir() and (str(fixed) == path.rstrip("/") or path[len(str(fixed)) :].startswith("/")):
        return fixed.absolute()
    return fixed.absolute().parent


def _same_folder(file: Path, folder: Path) -> Path | None:
    """The folder above a file that has the name of this one, and of its parents as many as any has."""
    found = {above: _alike(above.parts[1:], folder.parts[1:]) for above in file.parents}
    best = max(found, key=lambda above: (found[above], len(above.parts)))
    return best if found[best] else None


def _alike(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many names at the end are the same."""
    pairs = list(zip(reversed(one), reversed(other), strict=False))
    return next((at for at, (left, right) in enumerate(pairs) if left != right), len(pairs))


def _have_their_dates(entries: list[dict[str, Any]], old: Path, folder: Path) -> bool:
    """Whether the files that are in the folder are those that were read."""
    names = [
        (folder / Path(logged_path(entry["path"])).relative_to(old), entry["timestamp"])
        for entry in entries
        if old in Path(logged_path(entry["path"])).parents
    ]
    dates = [(os.stat(name).st_mtime_ns // 1_000_000, date) for name, date in names if name.exists()]
    return bool(dates) and all(now == date for now, date in dates)


def _renamed(line: str, old: Path, depth: int, here: str) -> str:
    if not line:
        return line
    entry = json.loads(line)
    if old not in Path(logged_path(entry["path"])).parents:
        return line
    scheme, _, path = entry["path"].partition("://")
    tail = path.split("/")[depth:]  # as Spark has written it
    return json.dumps({**entry, "path": "/".join((f"{scheme}://{here.rstrip('/')}", *tail))}, separators=(",", ":"))
