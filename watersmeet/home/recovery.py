"""The home folder on disk: recovery, publishing results, clearing what no manifest names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from watersmeet import points
from watersmeet.errors import StateError
from watersmeet.home.manifest import Manifest, ResultFile, load_newest
from watersmeet.io.folders import load_positions, positions_path
from watersmeet.io.sinks import STAGING, counts_folder
from watersmeet.store.bucket import BucketInfo, verify_file

Verify = Callable[[Path, tuple[BucketInfo, ...]], None]


def verify_files(home: Path, buckets: tuple[BucketInfo, ...]) -> None:
    for bucket in buckets:
        verify_file(home, bucket)


def recover(home: Path, result_folders: Iterable[Path], verify: Verify = verify_files) -> Manifest:
    """Bring the home to exactly what its newest manifest says, or raise and change nothing."""
    manifest = load_newest(home)
    verify(home, manifest.buckets)
    publish(manifest.results, "recover.publish")
    named = {home / bucket.file for bucket in manifest.buckets}
    for path in (*(home / "state").glob("*/*"), *(home / "manifests").glob("*.draft")):
        if path not in named:
            path.unlink(missing_ok=True)
    folders = {*result_folders, *(home / "results").glob("*"), *(home / "rejected").glob("*"), counts_folder(home)}
    for folder in (*(folder / STAGING for folder in folders), home / "orders"):
        if folder.exists():
            points.reach("recover.clear", folder)
            shutil.rmtree(folder, ignore_errors=True)
    return manifest


def check_positions(home: Path, manifest: Manifest) -> None:
    """Refuse positions in the sources that do not fit the state: older, gone, or more than one batch ahead.

    They are written before the tick: by Spark in its checkpoint, or in the log of a group of folders. Without them
    batches would be counted anew, and the engine would take batches of new rows for those that it has."""
    for group, batch in manifest.batches.items():
        folder, log = home / "checkpoints" / group, positions_path(home, group)
        if (folder / "offsets" / str(batch)).exists():
            continue
        positions = load_positions(home, group)
        if positions.batch < batch:
            where = folder if folder.exists() else log
            raise mixed(where, f"they do not go as far as the state, which has batch {batch}")
        if positions.batch > batch + 1:
            raise mixed(log, f"they go on with batch {positions.batch}, and the state ends with batch {batch}")


def mixed(folder: Path, why: str) -> StateError:
    return StateError(
        f"the positions in the sources, {folder}, do not fit the state: {why}",
        detail="The engine does not guess which rows it has; nothing was changed.",
        hint="restore the home folder as a whole from one backup, or start anew with another --home",
    )


def publish(results: Iterable[ResultFile], point: str = "publish.between") -> None:
    """Rename the files of a committed tick to where readers look. Doing it twice is harmless."""
    # A final file is complete, so it stays: what now has its staged name came late from a dead process.
    waiting = [file for file in results if not Path(file.final).exists()]
    for file in waiting:
        if not Path(file.staged).exists():
            raise StateError(
                f"the committed result file {file.final} is missing",
                detail=f"{file.rows} results of {file.query} were in it.",
                hint="restore it from a backup, or start anew with another --home",
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
