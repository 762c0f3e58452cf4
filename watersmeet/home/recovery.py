"""From a manifest to the files that it names: recovery, publishing results, deleting what no manifest names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from watersmeet import points
from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo, Manifest, ResultFile, load_newest

Verify = Callable[[Path, tuple[BucketInfo, ...]], None]


def recover(home: Path, result_folders: Iterable[Path], verify: Verify) -> Manifest:
    """Bring the home to exactly what its newest manifest says, or raise and change nothing."""
    manifest = load_newest(home)
    verify(home, manifest.buckets)
    publish(manifest.results, "recover.publish")
    named = {home / bucket.file for bucket in manifest.buckets}
    for path in (*(home / layout.STATE).glob("*/*"), *(home / layout.MANIFESTS).glob(layout.DRAFTS)):
        if path not in named:
            path.unlink(missing_ok=True)
    folders = {*result_folders, *(home / layout.RESULTS).glob("*"), *(home / layout.REJECTED).glob("*")}
    folders.add(home / layout.COUNTS)
    for folder in (*(folder / layout.STAGING for folder in folders), home / layout.ORDERS):
        if folder.exists():
            points.reach("recover.clear", folder)
            shutil.rmtree(folder, ignore_errors=True)
    return manifest


def publish(results: Iterable[ResultFile], point: str = "publish.between") -> None:
    """Rename the files of a committed tick to where readers look. Doing it twice is harmless."""
    # A final file is complete, so it stays: what now has its staged name came late from a dead process.
    waiting = [file for file in results if not Path(file.final).exists()]
    for file in waiting:
        if not Path(file.staged).exists():
            raise StateError(
                f"the committed result file {file.final} is missing",
                detail=f"It had {file.rows} results of query {file.query}.",
                hint=restore_hint("it"),
            )
    for at, file in enumerate(waiting):
        if at == 1:
            points.reach(point)
        os.rename(file.staged, file.final)


def discard(home: Path, files: Sequence[str]) -> None:
    """Delete state files that no manifest names."""
    points.reach("discard.before", files)
    for at, file in enumerate(files):
        if at == 1:
            points.reach("discard.between", files)
        (home / file).unlink(missing_ok=True)
