"""Where streams read and INTO leads on this machine: apart from each other, and streams apart from the home.

Paths are compared as they are after symbolic links and `..` are resolved.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.location import is_address, local_path, unusable
from watersmeet.home.manifest import load_newest
from watersmeet.io.source import class_of
from watersmeet.model import Sink, Stream

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


def resolved_sink(sink: Sink) -> Sink:
    """The sink with its folder by the one name that no other spelling leads to."""
    if not sink.path or not sink.names_folder or is_address(sink.path) or "\0" in sink.path:
        return sink
    return replace(sink, path=os.path.realpath(sink.path))


def check_path(query: str, sink: Sink, home: Path) -> None:
    """Reject a path that no folder can have. The sink is a resolved one."""
    if not sink.path or not sink.names_folder or sink.format in ("console", "count") or is_address(sink.path):
        return
    if (reason := unusable(sink.path)) and not _has_run(query, home):
        raise ModelError(
            f"query {query}: results cannot be written into {sink.path[:100]!r}: {reason}",
            hint="give INTO another path",
        )


def check_into(query: str, sink: Sink, home: Path, streams: Iterable[Stream], roots: str) -> None:
    """Reject a folder that is not for results. The sink is a resolved one."""
    if not sink.path or not sink.names_folder or sink.format in ("console", "count"):
        return
    if is_address(sink.path):
        raise ModelError(
            f"query {query}: results cannot be written to {sink.path}",
            detail="INTO takes a folder of this machine.",
            hint="name a folder (a mounted one serves too); for any other Spark sink, use query.foreach_tick(callable)",
        )
    try:
        _check_folder(query, Path(sink.path), Path(os.path.realpath(home)), streams, roots)
    except PermissionError as problem:
        if not _has_run(query, home):
            raise ModelError(f"query {query}: this user may not use {sink.path}", detail=str(problem)) from None


def _check_folder(query: str, folder: Path, own: Path, streams: Iterable[Stream], roots: str) -> None:
    if folder.exists() and not folder.is_dir() and not _has_run(query, own):
        raise ModelError(f"query {query}: {folder} is not a folder", hint="give INTO another path")
    if layout.STAGING in folder.parts:
        raise ModelError(f"query {query}: {folder} is for files that are being written", hint="give INTO another path")
    if own / layout.RESULTS not in folder.parents:
        _check_homes(query, folder, own)
        _check_roots(query, folder, roots)
    for stream in streams:
        check_source(query, folder, stream)


def _has_run(query: str, home: Path) -> bool:
    """Whether a query was active in the last tick. If its folder is lost it is suspended, and others run."""
    return query in load_newest(home).queries


def check_source(query: str, folder: Path, stream: Stream) -> None:
    """Reject a folder of results that a stream reads: the query would feed itself."""
    found = source_path(stream)
    if found is None:
        return
    read, _ = found
    if read == folder or read in folder.parents:
        raise ModelError(
            f"query {query}: {folder} is in the folder that stream {stream.name} reads: {read}",
            detail="Its results would be new rows of the stream.",
            hint="let INTO name a folder outside of it",
        )


def _check_homes(query: str, folder: Path, own: Path) -> None:
    for above in (folder, *folder.parents):
        if above == own or layout.is_home(above):
            raise ModelError(
                f"query {query}: {folder} is inside the home folder {above}",
                detail="An engine has its state there; only its own results may be written there.",
                hint="leave out INTO, or name a folder outside",
            )


def _check_roots(query: str, folder: Path, roots: str) -> None:
    allowed = [Path(os.path.realpath(root)) for root in roots.split(os.pathsep) if root]
    if allowed and not any(root == folder or root in folder.parents for root in allowed):
        listed = ", ".join(map(str, allowed))
        raise ModelError(
            f"query {query}: {folder} is not below a folder into which queries may write",
            detail=f"The option into_roots allows: {listed}.",
            hint="name a folder below one of them, or leave out INTO",
        )
