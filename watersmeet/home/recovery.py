"""From a manifest to the files that it names: recovery, publishing results, deleting what no manifest names.

State is guarded: a missing bucket rejects the start. Results belong to their readers, who may have moved or deleted
them: a missing one is a warning, but one that was cut short is damage. In a folder of results only files of ours are
deleted, by their names. What the manifest before the newest names is kept as well: where the newest state is damaged
and nobody has seen a result of its tick, recovery goes back to it (`going_back.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from watersmeet import points
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.dependencies import check_dependencies
from watersmeet.home.disk import sync_each, sync_entries
from watersmeet.home.going_back import Begun, Checks, check_results, go_back
from watersmeet.home.manifest import Manifest, NewerVersion, ResultFile, load_earlier, load_newest

_log = logging.getLogger("watersmeet")
_OF_A_TICK = "publish.between"


def recover(
    home: Path, result_folders: Iterable[Path], checks: Checks, begun_after: Begun = lambda home, manifest: {}
) -> Manifest:
    """Bring the home to exactly what its newest manifest says, or raise and change nothing.

    `checks` raise what is wrong with the state of a manifest; `begun_after` finds lines, at the ends of logs, of what
    was begun after the tick that follows a manifest."""
    folders = set(result_folders)
    outside = [folder for folder in folders if not folder.is_relative_to(home)]
    try:
        manifest = load_newest(home)
    except NewerVersion:
        raise
    except StateError as problem:
        manifest = go_back(home, outside, problem, checks, begun_after)
    check_dependencies(home, manifest, outside)
    try:
        for check in (*checks, check_results):
            check(home, manifest)
    except StateError as problem:
        manifest = go_back(home, outside, problem, checks, begun_after)
    publish(manifest, "recover.publish")
    before = load_earlier(home, manifest.tick)[:1]
    named = {home / file for file in named_files((manifest, *before))}
    unnamed = ((layout.STATE, "*/*"), (layout.WAITING, "*"), (layout.MANIFESTS, layout.DRAFTS))
    for path in (path for folder, names in unnamed for path in (home / folder).glob(names)):
        if path not in named and not path.is_dir():
            path.unlink(missing_ok=True)
    for path in (home / layout.OUTBOX).glob("*/*"):  # delivered, and left out of the manifest, before the engine died
        if path not in named and layout.tick_of(path.name) is not None:
            path.unlink(missing_ok=True)
    folders |= {*(home / layout.RESULTS).glob("*"), *(home / layout.REJECTED).glob("*"), home / layout.COUNTS}
    folders |= {*(home / layout.OUTBOX).glob("*")}
    for folder in folders:
        _clear(folder / layout.STAGING, "" if folder.is_relative_to(home) else manifest.tag)
    if (home / layout.ORDERS).exists():
        points.reach("recover.clear", home / layout.ORDERS)
        shutil.rmtree(home / layout.ORDERS, ignore_errors=True)
    return manifest


def superfluous(home: Path, manifest: Manifest) -> list[str]:
    """The files that only the manifest before this one names: they are deleted after the next commit."""
    before = load_earlier(home, manifest.tick)[:1]
    return sorted(named_files(before) - named_files([manifest]))


def named_files(manifests: Iterable[Manifest]) -> set[str]:
    """The files of the state, of waiting results and of the outbox, relative to the home."""
    found: set[str] = set()
    for one in manifests:
        found.update(bucket.file for bucket in one.buckets)
        found.update(waiting.file for waiting in one.waiting)
        found.update(file for lane in one.outbox for parcel in lane.parcels for file in parcel.files)
    return found


def _clear(staging: Path, tag: str) -> None:
    """Delete what ticks that were not committed have staged; anything else there is not ours."""
    try:
        names = [name for name in os.listdir(staging) if layout.tick_of(name, tag) is not None]
    except OSError:
        return  # no tick has staged anything here, or the folder is gone
    if names:
        points.reach("recover.clear", staging)
    for name in names:
        with contextlib.suppress(OSError):
            (staging / name).unlink()


def publish(manifest: Manifest, point: str = _OF_A_TICK) -> dict[str, str]:
    """Rename the files of a committed tick to where readers look. Doing it twice is harmless.

    Returns the queries with files that are neither where they were staged nor where they should be, and why."""
    # A final file is complete, so it stays: what now has its staged name came late from a dead process.
    is_new = point == _OF_A_TICK  # then nothing can be there
    waiting = [file for file in manifest.results if is_new or not _is_published(file, manifest.tick)]
    lost: dict[str, str] = {}
    for at, file in enumerate(waiting):
        if at == 1:
            points.reach(point)
        try:
            os.rename(file.staged, file.final)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as problem:
            what = f"results of {file.query} ({file.rows:,})"
            _log.warning("%s with %s is missing: %s", file.final, what, problem.strerror)
            if file.query in manifest.queries:  # not rows set aside
                lost[file.query] = f"{file.final} cannot be published: {problem.strerror}"
    return lost


def _is_published(file: ResultFile, tick: int) -> bool:
    """Whether a result file is where readers look, or was put aside since for another query of that name."""
    final = Path(file.final)
    return final.exists() or (layout.put_aside(final.parent, tick) / final.name).exists()


def sync_published(home: Path, manifest: Manifest) -> dict[str, str]:
    """Force the entries of folders to disk in which the files of a tick have appeared. That has to be done before the
    next manifest, which does not name these files any more. The folders that they have left do not matter: both names
    do no harm.

    A folder outside of the home may be on a disk that fails, which concerns its queries alone. Returns these, and why;
    what fails inside is raised."""
    folders = {os.path.dirname(file.final) for file in manifest.results}
    inside = {folder for folder in folders if Path(folder).is_relative_to(home)}
    if inside:
        sync_entries(inside)
    failed = sync_each(sync_entries, folders - inside)
    return {
        file.query: f"{folder} cannot be forced to disk: {failed[folder].strerror}"
        for file in manifest.results
        if (folder := os.path.dirname(file.final)) in failed and file.query in manifest.queries
    }


def discard_staged(manifest: Manifest, files: Iterable[ResultFile]) -> None:
    """Delete what was written for queries that this tick has suspended."""
    named = {file.staged for file in manifest.results}
    for file in files:
        if file.staged not in named:
            with contextlib.suppress(OSError):
                Path(file.staged).unlink(missing_ok=True)


def discard(home: Path, files: Sequence[str]) -> None:
    """Delete state files that neither the newest manifest names nor the one before."""
    points.reach("discard.before", files)
    for at, file in enumerate(files):
        if at == 1:
            points.reach("discard.between", files)
        (home / file).unlink(missing_ok=True)
