"""Return to the state before a damaged newest tick, if nobody can have seen a result of that tick.

That happens after a loss of power with durability=process, or on a disk that forgets what it has confirmed. The tick
is then repeated, with the same rows. Where results of it are published, a reader who has them would get them twice:
the start is rejected, and the message says which files to remove.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from watersmeet import points
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.dependencies import check_dependencies, later_results
from watersmeet.home.disk import sync_entries
from watersmeet.home.files import advice_in, line, make_private, replace_durably, whole_lines
from watersmeet.home.manifest import Manifest, ResultFile, committed, load, load_earlier

_log = logging.getLogger("watersmeet")
Checks = Sequence[Callable[[Path, Manifest], None]]
Begun = Callable[[Path, Manifest], Mapping[Path, list[bytes]]]
_SHOWN = 5  # files in a message
_DECIDED = b"the start goes back"  # instead of a manifest
_UNCHANGED = " Nothing was changed."


def check_results(home: Path, manifest: Manifest) -> None:
    """Reject a home with a result file that is not as long as it was written. A missing one is its reader's matter."""
    for one in (manifest, *load_earlier(home, manifest.tick)):
        for file in one.results:
            if (problem := _cut(file)) is not None:
                raise _cut_short(file, one.tick, problem)
    for lane in manifest.outbox:
        for parcel in lane.parcels:
            for name, size in zip(parcel.files, parcel.bytes, strict=False):
                path = str(home / name)
                waiting = ResultFile(lane.query, path, path, parcel.rows, size)
                if (problem := _cut(waiting)) is not None:
                    raise _cut_short(waiting, parcel.tick, problem)


def _cut(file: ResultFile) -> str | None:
    """What is wrong with the size of a result file."""
    for path in (file.final, file.staged) if file.bytes is not None else ():
        try:
            size = os.path.getsize(path)
        except OSError:
            continue
        return None if size == file.bytes else f"it has {size:,} bytes, the manifest has {file.bytes:,}"
    return None


def _cut_short(file: ResultFile, tick: int, problem: str) -> StateError:
    path = file.final if os.path.exists(file.final) else file.staged
    return StateError(
        f"the results of {file.query} in {path} are damaged: {problem}",
        detail=f"They are {file.rows:,} rows of tick {tick}. Nothing was changed.",
        hint="restore the file from a backup, or start with another --home; or delete it: the engine then goes on "
        "without these rows, which it does not find again",
    )


def go_back(home: Path, outside: Collection[Path], problem: StateError, checks: Checks, begun_after: Begun) -> Manifest:
    """Remove the newest tick, whose `problem` is given. Raises that, with what to do, where it is not safe."""
    ticks = committed(home)
    earlier = load_earlier(home, ticks[-1])
    if not earlier or earlier[0].tick != ticks[-1] - 1:
        raise problem
    target, damaged = earlier[0], ticks[-1]
    try:
        check_dependencies(home, target, (), is_newest=False)
        for check in (*checks, check_results):
            check(home, target)
    except StateError:
        raise problem from None  # the one before is no better
    seen, begun = sorted(set(_seen(home, target, damaged, outside))), begun_after(home, target)
    if seen:
        raise _by_hand(home, problem, target.tick, seen, begun)
    told = "%s; nobody has seen a result of tick %d, so it is repeated from the state of tick %d"
    _log.warning(told, problem.problem, damaged, target.tick)
    # From here on a crash leaves a manifest behind that says so: what it was decided by is removed.
    replace_durably(layout.manifest(home, damaged), _DECIDED)
    for log, lines in begun.items():  # they are found again
        replace_durably(log, b"".join(each + b"\n" for each in whole_lines(log)[: -len(lines)]))
    kept = [record for record in advice_in(home / layout.TICKS) if record.get("tick", 0) <= target.tick]
    replace_durably(home / layout.TICKS, b"".join(map(line, kept)))
    for path in list(later_results(home, target, outside)):  # rows that were set aside
        staged = layout.staged(path.parent, path.name)  # where recovery deletes what is not committed
        make_private(staged.parent)
        path.rename(staged)
        sync_entries([path.parent])
    points.reach("recover.back")
    layout.manifest(home, damaged).unlink()
    sync_entries([home / layout.MANIFESTS])
    return target


def _seen(home: Path, target: Manifest, damaged: int, outside: Collection[Path]) -> Iterator[str]:
    """Files of the damaged tick that a reader, or a target, may have: those that are published, or gone. One that is
    published and cut short counts as well: it may have been whole when it was read."""
    if layout.manifest(home, damaged).read_bytes() == _DECIDED:
        return
    later = later_results(home, target, outside)
    published = [str(path) for path in later if home / layout.REJECTED not in path.parents]
    yield from published
    try:
        newest = load(layout.manifest(home, damaged))
    except StateError:
        logged = [record for record in advice_in(home / layout.TICKS) if record.get("tick") == damaged]
        is_empty = logged and not any(record.get("results") or record.get("released") for record in logged)
        if not is_empty and not published:  # the log may have lost the line
            yield f"results of tick {damaged} that are gone, if it had any"  # and perhaps were read
        return
    for file in newest.results:
        is_staged = os.path.exists(file.staged) and not os.path.exists(file.final)
        if file.query in (*newest.queries, layout.COUNTS) and not is_staged:
            yield file.final


def _by_hand(
    home: Path, problem: StateError, tick: int, seen: list[str], begun: Mapping[Path, list[bytes]]
) -> StateError:
    listed = ", ".join(seen[:_SHOWN]) + (f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else "")
    about = problem.detail.removesuffix(_UNCHANGED)
    posted = any(Path(path).is_relative_to(home / layout.OUTBOX) for path in seen)
    # A target takes no tick twice, but the rows of this one may come in another tick when they are read again.
    unless = f", if no target of INTO has results of tick {tick + 1} yet" if posted else ""
    parts = [str(layout.manifest(home, tick + 1)), str(home / layout.TICKS)]
    parts.append(f"all result files whose names begin with {tick + 1:012d}")
    parts += [f"all lines of batch {json.loads(lines[0])['batch']} in {log}" for log, lines in begun.items()]
    return StateError(
        problem.problem,
        detail=f"{about} The state of tick {tick} is whole, but results of tick {tick + 1} may have been read, and "
        f"whoever has them would get them twice: {listed}.{_UNCHANGED}",
        hint=f"{problem.hint}; or, to repeat tick {tick + 1}{unless}, delete {', '.join(parts[:-1])}, and {parts[-1]}",
    )
