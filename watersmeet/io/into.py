"""Where INTO may lead. Paths are compared as they are after symbolic links and `..` are resolved."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.location import is_address, unusable
from watersmeet.home.manifest import load_newest
from watersmeet.io.locations import source_path
from watersmeet.model import Sink, Stream


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
