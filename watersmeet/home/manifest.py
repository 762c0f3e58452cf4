"""The manifest: the file that commits a tick and lists all files of the state.

Invariants
 1. `manifests/<tick>.json` appears atomically and is written last; what it does not name does not exist. What it
    names is on the disk before it is, unless durability=process.
 2. It is complete by itself: recovery reads the newest one only.
 3. Exactly one process commits on a home (`home_lock`), and a tick's manifest is never replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from watersmeet import points
from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.counters import BY_NAME, BY_STEP, Counters, Reason
from watersmeet.home.disk import sync, sync_entries
from watersmeet.home.files import make_private, private, replace_durably
from watersmeet.home.outbox import Lanes, lanes_from
from watersmeet.home.sealed import Seal

# 1: result files have absolute names, and nothing is said about the log of changes
# 2: no bucket has columns that Spark computed
# 3: no results wait to be delivered
# 4: there are no windowed queries, and nothing is said about which rows stores have
# 5: nothing is said about flushes, the sizes of result files, and other files that results depend on
# 6: logs of positions have a form for each kind of source
# 7: a windowed query has one form, and a slice store was founded for it; no results wait to become files
FORMAT = 8
_KEPT = 3


@dataclass(frozen=True)
class BucketInfo:
    """What the manifest knows of a bucket."""

    store: str
    file: str  # relative to the home
    rows: int
    bytes: int
    checksum: int
    tau_min: int
    tau_max: int
    first_tick: int
    last_tick: int
    partition: int = 0
    layout: str = ""  # text of the layout's key part; "" where the store is whole
    alive_until: int = 0  # compared with the store's horizon: the newest event time, or deadline if materialized
    made_by: str = ""  # of a materialized store: the relation whose arrival made these rows
    computed: tuple[str, ...] = ()  # the columns in it that Spark computed

    @property
    def level(self) -> int:
        """Buckets of one level have about the same size: they are merged with each other."""
        return max(0, (self.rows // 4096).bit_length() + 1) // 2


@dataclass(frozen=True)
class ResultFile:
    """A result file of one tick: written as `staged`, renamed to `final` once the manifest names it.

    In the manifest the names of files inside the home are relative to it, so that a home can be moved."""

    query: str
    staged: str
    final: str
    rows: int
    bytes: int | None = None  # None: not known


@dataclass(frozen=True)
class WaitingFile:
    """Results of many queries that are committed, and are not in files of these queries yet."""

    file: str  # relative to the home
    rows: int
    bytes: int
    checksum: int
    queries: tuple[str, ...] | None = None  # whose results in it still wait; None: all

    @property
    def tick(self) -> int:
        """The tick that has found them."""
        return int(Path(self.file).name.partition("-")[0])


@dataclass(frozen=True)
class LogMark:
    """How far a log went: its first `bytes` bytes have the checksum. What was added later does not matter."""

    bytes: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class Suspension:
    """Why a query is suspended, and since which tick. `id` distinguishes it from every other suspension, for ever."""

    tick: int
    reason: str
    id: str


@dataclass(frozen=True)
class Manifest:
    """The state of a home after a tick: files, queries, watermarks and totals."""

    tick: int = 0
    batches: dict[str, int] = field(default_factory=dict)  # source group -> newest batch id in the state
    newest: dict[str, int] = field(default_factory=dict)  # stream -> highest event time seen
    buckets: tuple[BucketInfo, ...] = ()
    results: tuple[ResultFile, ...] = ()  # that this tick publishes
    waiting: tuple[WaitingFile, ...] = ()  # results of this tick, or earlier ones, that later ticks publish
    totals: Counters = field(default_factory=Counters)  # since the first tick; of steps, since the plan is active
    plan: str = ""
    materialized: tuple[str, ...] = ()  # materialized stores that hold all that they should
    queries: dict[str, int] = field(default_factory=dict)  # active query -> its first tick
    additions: dict[str, str] | None = field(default_factory=dict)  # and the change that added it; None: not known
    changes: LogMark | None = None  # the log of changes at the commit; None: not known
    tag: str = ""  # begins the attempt names of this home, which tells its result files from those of others
    suspended: dict[str, Suspension] = field(default_factory=dict)  # until they are resumed
    marks: dict[str, int] = field(default_factory=dict)  # stream -> the event time up to which absences are decided
    flushed: dict[str, int] = field(default_factory=dict)  # stream -> its newest event time at the last flush
    windows: dict[str, int] = field(default_factory=dict)  # windowed query -> the start of its first open window
    complete: dict[str, int] = field(default_factory=dict)  # store -> the event time from which it has all rows
    silent: dict[str, int] = field(default_factory=dict)  # stream -> its watermark, where silence has raised it
    outbox: Lanes = ()  # results that are not known to be delivered
    positions: dict[str, int] = field(default_factory=dict)  # source group -> what is known of its newest batch
    parts: dict[str, Seal] = field(default_factory=dict)  # sealed files, as they were at the commit

    def validate(self) -> None:
        """The invariants that every committed manifest keeps."""
        files = [bucket.file for bucket in self.buckets]
        assert len(set(files)) == len(files), "a bucket is named twice"
        assert len({waiting.file for waiting in self.waiting}) == len(self.waiting), "a file is named twice"
        for bucket in self.buckets:
            assert bucket.rows > 0 and bucket.tau_min <= bucket.tau_max, bucket
            assert 0 < bucket.first_tick <= bucket.last_tick <= self.tick, bucket


class NewerVersion(StateError):
    """The manifest is one that this version cannot read, and no damage."""


def commit(home: Path, manifest: Manifest) -> None:
    """Commit a tick: write its manifest. Fails if another process has committed that tick."""
    path = layout.manifest(home, manifest.tick)
    inside = f"{home}{os.sep}"
    plain = {
        **_plain(manifest),
        "totals": _named(manifest.totals),
        "results": [
            {**_plain(result), "staged": result.staged.removeprefix(inside), "final": result.final.removeprefix(inside)}
            for result in manifest.results
        ],
    }
    body = json.dumps(plain, separators=(",", ":"), default=_plain)
    text = json.dumps({"format": FORMAT, "checksum": zlib.crc32(body.encode())}) + "\n" + body
    draft = layout.manifest_draft(home, manifest.tick, os.getpid())
    make_private(path.parent)
    try:
        with open(draft, "w", opener=private) as file:
            file.write(text)
        sync(draft)
        points.reach("manifest.draft")
        os.link(draft, path)  # unlike a rename, a link never replaces a manifest that is already there
        points.reach("manifest.linked")
    except FileExistsError:
        raise StateError(
            f"tick {manifest.tick} of {home} was committed by another process",
            hint="stop the other engine: one at a time may use a home",
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    sync_entries([path.parent])
    for old in committed(home)[:-_KEPT]:
        layout.manifest(home, old).unlink(missing_ok=True)


def load_newest(home: Path) -> Manifest:
    """The state of the home; an empty manifest where nothing was committed yet."""
    ticks = committed(home)
    return load(layout.manifest(home, ticks[-1])) if ticks else Manifest()


def load_readable(home: Path) -> Manifest:
    """The newest manifest that can be read. Whether the home is in that state is decided by recovery."""
    try:
        return load_newest(home)
    except NewerVersion:
        raise
    except StateError:
        earlier = load_earlier(home, committed(home)[-1])
        if not earlier:
            raise
        return earlier[0]


def load_earlier(home: Path, tick: int) -> list[Manifest]:
    """The manifests before a tick that are still there, the newest first; those that are damaged are left out."""
    found = []
    for earlier in reversed(committed(home)):
        if earlier < tick:
            with contextlib.suppress(StateError):
                found.append(load(layout.manifest(home, earlier)))
    return found


def load(path: Path) -> Manifest:
    try:
        head, _, body = path.read_text().partition("\n")
        header = json.loads(head)
        version = header["format"]
        if version <= FORMAT and header["checksum"] != zlib.crc32(body.encode()):
            raise ValueError("its checksum is wrong")
        raw = json.loads(body)
        if version <= FORMAT and raw["tick"] != int(path.stem):
            raise ValueError(f"it is that of tick {raw['tick']}")
    except (ValueError, KeyError, TypeError) as problem:
        raise StateError(
            f"the manifest {path} is damaged: {problem}",
            detail="The engine does not guess what was committed. Nothing was changed.",
            hint=restore_hint("the home folder"),
        ) from None
    if version > FORMAT:
        raise NewerVersion(
            f"{path} was written by a newer version of Watersmeet (format {version}; this version reads {FORMAT})",
            hint="run the newer version on this home, or use another --home",
        )
    manifest = Manifest(**{"additions": None, **raw})  # older versions did not write it down
    return replace(
        manifest,
        buckets=tuple(
            BucketInfo(**{**bucket, "computed": tuple(bucket.get("computed", ()))}) for bucket in raw["buckets"]
        ),
        results=tuple(_found(path.parents[1], ResultFile(**result)) for result in raw["results"]),
        waiting=tuple(
            WaitingFile(**{**one, "queries": None if one["queries"] is None else tuple(one["queries"])})
            for one in raw.get("waiting", ())
        ),
        changes=LogMark(**raw["changes"]) if raw.get("changes") else None,
        totals=_counters(raw["totals"]),
        materialized=tuple(raw["materialized"]),
        suspended={query: Suspension(**one) for query, one in raw.get("suspended", {}).items()},
        outbox=lanes_from(raw.get("outbox", ())),
        parts={name: Seal(*seal) for name, seal in raw.get("parts", {}).items()},
    )


def _plain(one: Any) -> dict[str, Any]:
    """The fields of a dataclass. Unlike `asdict` it copies nothing: a tick may have thousands of files."""
    return {each.name: getattr(one, each.name) for each in fields(one)}


def _found(home: Path, result: ResultFile) -> ResultFile:
    """A result file with absolute names. Those of an older version lead to where the home was at that time."""
    staged, final = Path(result.staged), Path(result.final)
    if not final.is_absolute():
        return replace(result, staged=str(home / staged), final=str(home / final))
    depth = 3 if final.parent.parent.name in (layout.RESULTS, layout.REJECTED) else 2
    here = Path(*final.parts[-depth:])
    moved = replace(result, staged=str(layout.staged(home / here.parent, here.name)), final=str(home / here))
    return moved if Path(moved.staged).exists() or Path(moved.final).exists() else result


def committed(home: Path) -> list[int]:
    """The ticks whose manifests are there, in their order."""
    return sorted(int(path.stem) for path in (home / layout.MANIFESTS).glob(layout.JSON_FILES) if path.stem.isdigit())


_REASONS = {reason.value: reason for reason in Reason}
_COLLISIONS = "hash_collisions"


def _named(totals: Counters) -> dict[str, int]:
    """Counters as they stand in the file: named "kind/name"."""
    kinds = (*BY_NAME, *BY_STEP)
    found = {f"{kind}/{name}": count for kind in kinds for name, count in getattr(totals, kind).items()}
    found |= {f"{reason}/{stream}": count for (reason, stream), count in totals.set_aside.items()}
    return {**found, _COLLISIONS: totals.hash_collisions}


def _counters(named: Mapping[str, int]) -> Counters:
    """Counters from a file; one that this version does not know is left out."""
    totals = Counters(hash_collisions=named.get(_COLLISIONS, 0))
    for key, count in named.items():
        kind, _, name = key.partition("/")
        if kind in BY_NAME:
            getattr(totals, kind)[name] = count
        elif kind in BY_STEP:
            getattr(totals, kind)[int(name)] = count
        elif kind in _REASONS:
            totals.set_aside[_REASONS[kind], name] = count
    return totals


# The identity of a home: a tag that its copies and its new place keep, and that no other home has


def tag_of(home: Path, manifest: Manifest) -> str:
    """The tag of a home, or nothing if no engine has started there. Until the first tick only a file has it."""
    with contextlib.suppress(OSError):
        return manifest.tag or (home / layout.IDENTITY).read_text("ascii", "replace").strip()
    return ""


def keep_tag(home: Path, tag: str) -> None:
    """Write the tag of a new home down, before anything outside of it has the tag."""
    if not (home / layout.IDENTITY).exists():
        replace_durably(home / layout.IDENTITY, tag.encode())
