"""Which files of this machine a stream reads, and that they are apart from the home.

Paths are compared as they are after symbolic links and `..` are resolved.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.location import local_path
from watersmeet.io.source import class_of
from watersmeet.model import Stream

_PATTERN = re.compile(r"[*?\[{]")


def source_path(stream: Stream) -> tuple[Path, tuple[str, ...]] | None:
    """The folder below which a stream reads files of this machine, and the parts of a pattern below it; None if it
    reads none."""
    source, found = stream.source, class_of(stream)
    if source is None or not source.path or (path := local_path(source.path)) is None:
        return None
    if found is not None and not found.names_files:
        return None
    if os.path.isdir(path):  # then it is no pattern, whatever signs it has
        return Path(os.path.realpath(path)), ()
    parts = Path(os.path.abspath(path)).parts
    fixed = next((at for at, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    return Path(os.path.realpath(Path(*parts[:fixed]))), parts[fixed:]


def check_home_apart(home: Path, stream: Stream) -> None:
    """Reject a home inside of what a stream reads, where its results would be new rows, and one around it, where files
    of the input could be taken for those of the engine."""
    read = source_path(stream)
    if read is None or stream.source is None:
        return
    (folder, pattern), own = read, Path(os.path.realpath(home)).parts
    if any(part != other for part, other in zip(folder.parts, own, strict=False)):
        return
    for part, other in zip(pattern, own[len(folder.parts) :], strict=False):
        if "{" in part:  # alternatives, which may have slashes
            break
        if not fnmatch.fnmatchcase(other, part):
            return
    is_inside = len(own) >= len(folder.parts) + len(pattern)
    if not is_inside and len(own) > len(folder.parts):  # a pattern that leads through the home: to what is there?
        following = pattern[len(own) - len(folder.parts)]
        if "{" not in following and not fnmatch.filter(layout.FOLDERS, following):
            return
    raise ModelError(
        f"the home {home} is {'inside of' if is_inside else 'around'} what stream {stream.name} reads: "
        f"{stream.source.path}",
        detail="The engine would read its own files as rows of the stream."
        if is_inside
        else "Only the engine's own files may be in its home.",
        hint="name a home outside of it: --home DIR",
    )
