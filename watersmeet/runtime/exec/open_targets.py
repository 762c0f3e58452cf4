"""Deliveries in a task: the targets that a worker has open, and the parcels that it commits to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet import points
from watersmeet.errors import ModelError
from watersmeet.home.outbox import LaneName, Parcel
from watersmeet.io.connectors.protocol import Sender, Target, Undeliverable, connector_of, shown
from watersmeet.io.connectors.secrets import redacted
from watersmeet.model import Sink
from watersmeet.runtime.emit.confine import reason_of

_ROWS = 1 << 16  # of a file that are read at a time


@dataclass(frozen=True)
class DeliverOrder:
    """Parcels of a lane of the outbox, in order, to be committed to their target unless it has them."""

    home: str
    tag: str  # of the home
    query: str
    sink: Sink
    parcels: tuple[Parcel, ...]
    committed: int  # the newest tick: no target has a later one

    tasks = 1


@dataclass
class DeliveryReport:
    last: int = 0  # the newest tick that the target is known to have; 0 if it is not known
    reason: str = ""  # why not all was delivered
    is_final: bool = False  # no other try would succeed


@dataclass
class _Opened:
    target: Target
    schema: pa.Schema
    last: int  # the newest tick that it has


class OpenTargets:
    """The open targets of a worker, from tick to tick. A failed one is opened again, beginning with `recover`."""

    def __init__(self) -> None:
        self._open: dict[LaneName, _Opened] = {}

    def deliver(self, order: DeliverOrder) -> DeliveryReport:
        """Commit the parcels that the target lacks, as far as that can be done."""
        report = DeliveryReport()
        try:
            self._deliver(order, report)
        except Exception as problem:
            self._drop((order.query, order.sink))
            report.reason = redacted(reason_of(problem))
            report.is_final = isinstance(problem, Undeliverable | ModelError)
        except BaseException:
            self._drop((order.query, order.sink))  # whether the last tick was committed is not known
            raise
        return report

    def _deliver(self, order: DeliverOrder, report: DeliveryReport) -> None:
        name = order.query, order.sink
        for parcel in order.parcels:
            if name in self._open and parcel.tick <= self._open[name].last <= order.committed:
                report.last = self._open[name].last
                continue
            schema = _schema(Path(order.home) / parcel.files[0])
            if name in self._open and self._open[name].schema != schema:
                self._drop(name)  # the query was added again with other columns
            if name not in self._open:
                self._open[name] = _opened(Sender(order.tag, order.query, order.sink, schema))
            opened = self._open[name]
            if opened.last > order.committed:
                raise Undeliverable(
                    f"{shown(order.sink)} has tick {opened.last} of this query, and the home ends with tick "
                    f"{order.committed}",
                    detail="It seems that the home was restored from an earlier state.",
                    hint="restore the newest state, or start with another --home and another target",
                )
            if parcel.tick > opened.last:
                report.last = opened.last
                points.reach("target.commit")
                opened.target.commit(parcel.tick, _rows(Path(order.home), parcel))
                opened.last = report.last = parcel.tick
                points.reach("target.committed")
            report.last = opened.last

    def _drop(self, name: LaneName) -> None:
        opened = self._open.pop(name, None)
        if opened is not None:
            with contextlib.suppress(Exception):
                opened.target.close()

    def close(self) -> None:
        for name in list(self._open):
            self._drop(name)


def _opened(sender: Sender) -> _Opened:
    points.reach("target.open")
    target = connector_of(sender.sink).open(sender)
    try:
        opened = _Opened(target, sender.schema, target.recover())
    except BaseException:
        with contextlib.suppress(Exception):
            target.close()
        raise
    points.reach("target.recovered")
    return opened


def _schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except FileNotFoundError:
        raise _lost(path) from None


def _rows(home: Path, parcel: Parcel) -> Iterator[pa.RecordBatch]:
    for name in parcel.files:
        path = home / name
        try:
            file = pq.ParquetFile(path, memory_map=True)
        except FileNotFoundError:
            raise _lost(path) from None
        with file:
            yield from file.iter_batches(_ROWS, use_threads=False)


def _lost(path: Path) -> Undeliverable:
    return Undeliverable(
        f"{path} is missing, and its results are not delivered",
        hint="restore the home folder as a whole from a backup; or drop the query, and add it under another name",
    )
