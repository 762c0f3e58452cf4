"""The manifest: the one file that says what is committed.

Invariants
 1. `manifests/<tick>.json` appears atomically and is written last; what it does not name does not exist.
 2. It is complete by itself: recovery reads the newest one only.
 3. Exactly one process commits on a home (`HomeLock`), and a tick's manifest is never replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from watersmeet import points
from watersmeet.errors import StateError
from watersmeet.store.bucket import BucketInfo

FORMAT = 1
_KEPT = 3


@dataclass(frozen=True)
class ResultFile:
    """A result file of one tick: written as `staged`, renamed to `final` once the manifest names it."""

    query: str
    staged: str
    final: str
    rows: int


@dataclass(frozen=True)
class Manifest:
    tick: int = 0
    batches: dict[str, int] = field(default_factory=dict)  # source group -> newest batch id in the state
    newest: dict[str, int] = field(default_factory=dict)  # stream -> highest event time seen
    buckets: tuple[BucketInfo, ...] = ()
    results: tuple[ResultFile, ...] = ()  # of this tick only
    totals: dict[str, int] = field(default_factory=dict)  # running counters, named "kind/name"
    plan: str = ""
    materialized: tuple[str, ...] = ()  # materialized stores that hold all that they should
    queries: dict[str, int] = field(default_factory=dict)  # query in force -> its first tick
    additions: dict[str, str] | None = field(default_factory=dict)  # and the change that added it; None: not known

    def validate(self) -> None:
        """The invariants that every committed manifest keeps."""
        files = [bucket.file for bucket in self.buckets]
        assert len(set(files)) == len(files), "a bucket is named twice"
        for bucket in self.buckets:
            assert bucket.rows > 0 and bucket.tau_min <= bucket.tau_max, bucket
            assert 0 < bucket.first_tick <= bucket.last_tick <= self.tick, bucket


def manifest_path(home: Path, tick: int) -> Path:
    return home / "manifests" / f"{tick:012d}.json"


def commit(home: Path, manifest: Manifest) -> None:
    """Make a tick real. Fails if another process has committed that tick."""
    path = manifest_path(home, manifest.tick)
    body = json.dumps(asdict(manifest), separators=(",", ":"))
    text = json.dumps({"format": FORMAT, "checksum": zlib.crc32(body.encode())}) + "\n" + body
    draft = path.with_suffix(f".{os.getpid()}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        points.reach("manifest.draft")
        os.link(draft, path)  # unlike a rename, a link never replaces a manifest that is already there
        points.reach("manifest.linked")
    except FileExistsError:
        raise StateError(
            f"tick {manifest.tick} of {home} was committed by another process",
            hint="one engine at a time may use a home; stop the other one",
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)
    for old in _committed(home)[:-_KEPT]:
        manifest_path(home, old).unlink(missing_ok=True)


def load_newest(home: Path) -> Manifest:
    """The state of the home; an empty manifest where nothing was committed yet."""
    ticks = _committed(home)
    return load(manifest_path(home, ticks[-1])) if ticks else Manifest()


def load(path: Path) -> Manifest:
    try:
        head, _, body = path.read_text().partition("\n")
        header = json.loads(head)
        version = header["format"]
        if version <= FORMAT and header["checksum"] != zlib.crc32(body.encode()):
            raise ValueError("its checksum is wrong")
    except (ValueError, KeyError, TypeError) as problem:
        raise StateError(
            f"the manifest {path} is damaged: {problem}",
            detail="The engine does not guess what was committed; nothing was changed.",
            hint="restore the home folder from a backup, or start anew with another --home",
        ) from None
    if version > FORMAT:
        raise StateError(
            f"{path} was written by a newer version of Watersmeet (format {version}, this one reads {FORMAT})",
            hint="run the newer version on this home, or use another --home",
        )
    raw = json.loads(body)
    manifest = Manifest(**{"additions": None, **raw})  # older versions did not write it down
    return replace(
        manifest,
        buckets=tuple(BucketInfo(**bucket) for bucket in raw["buckets"]),
        results=tuple(ResultFile(**result) for result in raw["results"]),
        materialized=tuple(raw["materialized"]),
    )


def _committed(home: Path) -> list[int]:
    return sorted(int(path.stem) for path in (home / "manifests").glob("*.json") if path.stem.isdigit())


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable, not only the files in it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _locked(file: IO[str]) -> bool:
    """Take the lock; tried a few times, because whoever looks for a running engine holds it for a moment."""
    for wait in (0.02, 0.05, 0.1, None):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if wait is not None:
                time.sleep(wait)
    return False


@contextlib.contextmanager
def home_lock(home: Path) -> Iterator[None]:
    """Exclusive use of a home, given back by the operating system when the process ends in whatever way."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("a+") as file:
        if not _locked(file):
            file.seek(0)
            raise StateError(
                f"the home {home} is in use by process {file.read().strip() or 'unknown'}",
                hint="stop that engine first, or give this one another --home",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
