"""The outbox in the manifest: results of committed ticks that their targets do not have yet.

A *lane* is a query and the target of its results; its *parcels* are ticks, in order. A manifest names a parcel from the
commit of its tick until some later manifest knows that it was delivered. So a parcel that is named may have been
delivered already: the target is asked, not the manifest (`runtime/outbox.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from watersmeet.home import layout
from watersmeet.home.files import advice_in, line, write_whole
from watersmeet.model import Sink


@dataclass(frozen=True)
class Parcel:
    """The results of one tick."""

    tick: int
    rows: int
    files: tuple[str, ...]  # relative to the home
    bytes: tuple[int | None, ...] = ()  # of each file; empty: not known


class Posted(NamedTuple):
    """A file of a tick, for a target."""

    query: str
    rows: int
    name: str  # relative to the home
    bytes: int | None = None


@dataclass(frozen=True)
class Lane:
    """The parcels of a query that wait for one target, in the order of their ticks."""

    query: str
    sink: Sink  # as the query had it in these ticks; the query may be dropped, or have another one by now
    parcels: tuple[Parcel, ...] = ()

    @property
    def name(self) -> LaneName:
        return self.query, self.sink

    def leads_to(self, sink: Sink) -> bool:
        """Whether that is the same target, with whatever options."""
        return (self.sink.format, self.sink.path) == (sink.format, sink.path)


LaneName = tuple[str, Sink]


@dataclass(frozen=True)
class LaneState:
    """What the engine last knew of a lane, for `stats` and `list`: advice, the target knows better."""

    query: str
    target: str
    delivered: int = 0  # the newest tick that the target has
    tries: int = 0  # that failed in a row
    reason: str = ""  # of the last failure, if tries is not 0


def posted(lanes: Sequence[Lane], sinks: Mapping[str, Sink], new: Iterable[Posted], tick: int) -> Lanes:
    """The outbox with the files of a tick."""
    found: dict[str, list[Posted]] = {}
    for file in new:
        if file.query in sinks:
            found.setdefault(file.query, []).append(file)
    after = {lane.name: lane for lane in lanes}
    for query, files in found.items():
        # A query that was added again with other options continues the lane: a target that has a tick takes no
        # earlier one.
        before = [lane for lane in after.values() if lane.query == query and lane.leads_to(sinks[query])]
        waiting = sorted((parcel for lane in before for parcel in lane.parcels), key=lambda parcel: parcel.tick)
        after = {name: lane for name, lane in after.items() if lane not in before}
        lane = Lane(query, sinks[query], tuple(waiting))
        sizes = tuple(file.bytes for file in files)
        parcel = Parcel(tick, sum(file.rows for file in files), tuple(file.name for file in files), sizes)
        after[lane.name] = replace(lane, parcels=(*lane.parcels, parcel))
    return tuple(after.values())


Lanes = tuple[Lane, ...]


def without(lanes: Sequence[Lane], delivered: Mapping[LaneName, int]) -> tuple[Lanes, list[str]]:
    """The outbox without what was delivered, and the files of that."""
    left, files = [], []
    for lane in lanes:
        last = delivered.get(lane.name, 0)
        waiting = tuple(parcel for parcel in lane.parcels if parcel.tick > last)
        files += [file for parcel in lane.parcels if parcel.tick <= last for file in parcel.files]
        if waiting:
            left.append(lane if len(waiting) == len(lane.parcels) else replace(lane, parcels=waiting))
    return tuple(left), files


def lanes_from(raw: Iterable[Mapping[str, Any]]) -> Lanes:
    """The lanes of an outbox from their form in a manifest."""
    return tuple(
        Lane(
            one["query"],
            Sink(one["sink"]["format"], one["sink"]["path"], tuple((n, v) for n, v in one["sink"]["options"])),
            tuple(
                Parcel(parcel["tick"], parcel["rows"], tuple(parcel["files"]), tuple(parcel.get("bytes", ())))
                for parcel in one["parcels"]
            ),
        )
        for one in raw
    )


def write_states(home: Path, states: Iterable[LaneState]) -> None:
    write_whole(home / layout.LANES, b"".join(line(asdict(state)) for state in states))


def read_states(home: Path) -> list[LaneState]:
    return [LaneState(**one) for one in advice_in(home / layout.LANES)]
