"""From a manifest to the files that it names: recovery, publishing results, deleting what no manifest names.

State is guarded: a missing bucket rejects the start. Results belong to their readers, who may have moved or deleted
them: a missing one is a warning. In a folder of results only files of ours are deleted, by their names.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from watersmeet import points
from watersmeet.home import layout
from watersmeet.home.dependencies import check_dependencies
from watersmeet.home.manifest import BucketInfo, Manifest, ResultFile, load_newest

_log = logging.getLogger("watersmeet")
Verify = Callable[[Path, tuple[BucketInfo, ...]], None]


def recover(home: Path, result_folders: Iterable[Path], verify: Verify) -> Manifest:
    """Bring the home to exactly what its newest manifest says, or raise and change nothing."""
    folders = set(result_folders)
    manifest = load_newest(home)
    check_dependencies(home, manifest, [folder for folder in folders if not folder.is_relative_to(home)])
    verify(home, manifest.buckets)
    publish(manifest, "recover.publish")
    named = {home / bucket.file for bucket in manifest.buckets}
    for path in (*(home / layout.STATE).glob("*/*"), *(home / layout.MANIFESTS).glob(layout.DRAFTS)):
        if path not in named and not path.is_dir():
            path.unlink(missing_ok=True)
    _clear_outbox(home, manifest)
    folders |= {*(home / layout.RESULTS).glob("*"), *(home / layout.REJECTED).glob("*"), home / layout.COUNTS}
    folders |= {*(home / layout.OUTBOX).glob("*")}
    for folder in folders:
        _clear(folder / layout.STAGING, "" if folder.is_relative_to(home) else manifest.tag)
    if (home / layout.ORDERS).exists():
        points.reach("recover.clear", home / layout.ORDERS)
        shutil.rmtree(home / layout.ORDERS, ignore_errors=True)
    return manifest


def _clear_outbox(home: Path, manifest: Manifest) -> None:
    """Delete what was delivered, and left out of the manifest, before the engine died."""
    named = {home / file for lane in manifest.outbox for parcel in lane.parcels for file in parcel.files}
    for path in (home / layout.OUTBOX).glob("*/*"):
        if path not in named and layout.tick_of(path.name) is not None:
            path.unlink(missing_ok=True)


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


def publish(manifest: Manifest, point: str = "publish.between") -> dict[str, str]:
    """Rename the files of a committed tick to where readers look. Doing it twice is harmless.

    Returns the queries with files that are neither where they were staged nor where they should be, and why."""
    # A final file is complete, so it stays: what now has its staged name came late from a dead process.
    waiting = [file for file in manifest.results if not os.path.exists(file.final)]
    lost: dict[str, str] = {}
    for at, file in enumerate(waiting):
        if at == 1:
            points.reach(point)
        try:
            os.rename(file.staged, file.final)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as problem:
            _log.warning("%s with %d results of %s is missing: %s", file.final, file.rows, file.query, problem.strerror)
            if file.query in manifest.queries:  # not rows set aside
                lost[file.query] = f"{file.final} cannot be published: {problem.strerror}"
    return lost


def discard_staged(manifest: Manifest, files: Iterable[ResultFile]) -> None:
    """Delete what was written for queries that this tick has suspended."""
    named = {file.staged for file in manifest.results}
    for file in files:
        if file.staged not in named:
            with contextlib.suppress(OSError):
                Path(file.staged).unlink(missing_ok=True)


def discard(home: Path, files: Sequence[str]) -> None:
    """Delete state files that no manifest names."""
    points.reach("discard.before", files)
    for at, file in enumerate(files):
        if at == 1:
            points.reach("discard.between", files)
        (home / file).unlink(missing_ok=True)
