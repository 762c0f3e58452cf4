"""From a manifest to the files that it names: recovery, publishing results, deleting what no manifest names."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from watersmeet import points
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo, Manifest, ResultFile, load_newest

_log = logging.getLogger("watersmeet")
Verify = Callable[[Path, tuple[BucketInfo, ...]], None]


def recover(home: Path, result_folders: Iterable[Path], verify: Verify) -> Manifest:
    """Bring the home to exactly what its newest manifest says, or raise and change nothing."""
    manifest = load_newest(home)
    verify(home, manifest.buckets)
    for query, reason in publish(manifest, "recover.publish").items():
        _log.warning("results of %s of tick %s cannot be published: %s", query, manifest.tick, reason)
    named = {home / bucket.file for bucket in manifest.buckets}
    for path in (*(home / layout.STATE).glob("*/*"), *(home / layout.MANIFESTS).glob(layout.DRAFTS)):
        if path not in named:
            path.unlink(missing_ok=True)
    folders = {*result_folders, *(home / layout.RESULTS).glob("*"), *(home / layout.REJECTED).glob("*")}
    folders.add(home / layout.COUNTS)
    for folder in (*(folder / layout.STAGING for folder in folders), home / layout.ORDERS):
        if os.path.lexists(folder):  # where it cannot be looked at, the query's own trouble shows later
            points.reach("recover.clear", folder)
            shutil.rmtree(folder, ignore_errors=True)
    return manifest


def publish(manifest: Manifest, point: str = "publish.between") -> dict[str, str]:
    """Rename the files of a committed tick to where readers look. Doing it twice is harmless.

    The queries whose files cannot be renamed, and why: their folders are their own trouble."""
    # A final file is complete, so it stays: what now has its staged name came late from a dead process.
    waiting = [file for file in manifest.results if not Path(file.final).exists()]
    lost: dict[str, str] = {}
    for at, file in enumerate(waiting):
        if at == 1:
            points.reach(point)
        try:
            os.rename(file.staged, file.final)
        except OSError as problem:
            if isinstance(problem, FileNotFoundError | NotADirectoryError | PermissionError):
                lost[file.query] = f"{file.final} cannot be published: {problem.strerror}"
            else:
                raise
            if file.query not in manifest.queries:  # rows set aside, or counts: they belong to the home
                raise StateError(
                    f"the committed file {file.final} is missing",
                    detail=f"{file.rows} rows were in it.",
                    hint="restore it from a backup, or start with another --home",
                ) from None
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
