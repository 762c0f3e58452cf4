"""The outbox: committed results on their way to targets outside of the home.

A thread has tasks deliver the parcels of each lane in order. A target that cannot be reached does not stop ticks: its
parcels wait, and delivery is tried again after pauses that grow. A query with too many of them, or with an error that
no other try would cure, is suspended; what waits is not lost. What was delivered is left out of the next manifest.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from watersmeet import points
from watersmeet.home.manifest import Manifest
from watersmeet.home.outbox import Lane, LaneName, LaneState, write_states
from watersmeet.io.connectors.protocol import shown
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.exec.batches import Observer
from watersmeet.runtime.exec.executor import Executor, Rank
from watersmeet.runtime.exec.open_targets import DeliverOrder, DeliveryReport

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0  # seconds from a failed try to the next
_AT_ONCE = 64  # parcels of an order: the driver hears of them soon enough


@dataclass
class _Delivery:
    """What is known of a lane."""

    lane: Lane  # with what is not known to be delivered
    delivered: int = 0
    is_running: bool = False
    tries: int = 0  # that failed in a row
    reason: str = ""
    due: float = 0.0  # on the monotonic clock: when to try again
    blocked_as: str | None = None  # no other try would succeed, as long as the query's suspension is this; "" before

    @property
    def is_idle(self) -> bool:
        return not self.lane.parcels and not self.is_running

    def is_due(self, now: float) -> bool:
        return bool(self.lane.parcels) and not self.is_running and self.blocked_as is None and self.due <= now


class Outbox(Observer):
    """`suspend` is called for a query whose results cannot be delivered."""

    def __init__(self, home: Path, executor: Executor, suspend: Callable[[str, str], None], most: int) -> None:
        """`most` parcels of a query may wait."""
        self._home, self._executor, self._suspend, self._most = home, executor, suspend, most
        self._changed = threading.Condition()  # guards all that follows
        self._deliveries: dict[LaneName, _Delivery] = {}
        self._newest = Manifest()
        self._closed = False
        self._thread: threading.Thread | None = None  # once there is something to deliver

    def committed(self, manifest: Manifest) -> None:
        """Deliver what the manifest names. Also called at a start, with the manifest that was found."""
        full: list[_Delivery] = []
        with self._changed:
            self._newest = manifest
            if not manifest.outbox and not self._deliveries:
                return
            named = {lane.name: lane for lane in manifest.outbox}
            for name in [name for name, one in self._deliveries.items() if name not in named and not one.is_running]:
                del self._deliveries[name]
            for name, lane in named.items():
                one = self._deliveries.setdefault(name, _Delivery(lane))
                one.lane = _undelivered(lane, one.delivered)
                self._unblock(one)
                if len(one.lane.parcels) > self._most and lane.query in manifest.queries:
                    full.append(one)
            if self._thread is None and self._deliveries:
                self._thread = threading.Thread(target=self._run, name="watersmeet outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        for one in full:
            if one.lane.query not in manifest.suspended:
                waiting = f"{len(one.lane.parcels):,} ticks wait to be delivered to {shown(one.lane.sink)}"
                last = f"; {one.reason}" if one.reason else ""
                self._suspend(one.lane.query, f"{waiting} (option max_outbox_ticks){last}")

    def _unblock(self, one: _Delivery) -> None:
        """A query that was suspended because of its target and is resumed: delivery is tried again."""
        if one.blocked_as is None:
            return
        found = self._newest.suspended.get(one.lane.query)
        if found is not None:
            one.blocked_as = found.id
        elif one.blocked_as:  # it was suspended, and is not any more
            one.blocked_as, one.due = None, 0.0

    def delivered(self) -> dict[LaneName, int]:
        """By lane, the newest tick that the target has. Called before a commit, which leaves these ticks out."""
        with self._changed:
            return {name: one.delivered for name, one in self._deliveries.items() if one.delivered}

    def drain(self, seconds: float) -> bool:
        """Wait until nothing is left to be delivered but what fails; whether that was in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or all(one.is_idle or one.tries for one in self._deliveries.values()), seconds
            )

    def close(self, seconds: float) -> None:
        """Wait for what is on its way. The next start delivers what is left."""
        self.drain(seconds)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # The thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                begun = [one for one in self._deliveries.values() if one.is_due(now)]
                for one in begun:
                    one.is_running = True
                if not begun:
                    times = [one.due for one in self._deliveries.values() if one.is_due(float("inf"))]
                    self._changed.wait(min(times) - now if times else None)
                    continue
            for one in begun:
                self._begin(one)

    def _begin(self, one: _Delivery) -> None:
        lane = one.lane
        order = DeliverOrder(
            home=str(self._home),
            tag=self._newest.tag,
            query=lane.query,
            sink=lane.sink,
            parcels=lane.parcels[:_AT_ONCE],
            committed=self._newest.tick,
        )
        try:
            future = self._executor.submit(order, Rank.DELIVERY)
        except Exception as problem:  # the executor is closed, or Spark is gone
            self._end(one, DeliveryReport(reason=reason_of(problem)))
            return
        future.add_done_callback(lambda done: self._end(one, _report_of(done)))

    def _end(self, one: _Delivery, report: DeliveryReport) -> None:
        if report.last:
            points.reach("delivery.known")
        if report.is_final and one.lane.query in self._newest.queries:
            self._suspend(one.lane.query, f"results cannot be delivered: {report.reason}")
        with self._changed:
            one.is_running = False
            one.delivered = max(one.delivered, report.last)
            one.lane = _undelivered(one.lane, one.delivered)
            one.reason = report.reason
            one.tries = one.tries + 1 if report.reason else 0
            if report.reason:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(one.tries - 1, 20))
                one.due = time.monotonic() + pause
            if report.is_final:
                one.blocked_as = ""
                self._unblock(one)
            states = [
                LaneState(each.lane.query, shown(each.lane.sink), each.delivered, each.tries, each.reason)
                for each in self._deliveries.values()
            ]
            with contextlib.suppress(OSError):
                write_states(self._home, states)
            self._changed.notify_all()


def _undelivered(lane: Lane, last: int) -> Lane:
    return Lane(lane.query, lane.sink, tuple(parcel for parcel in lane.parcels if parcel.tick > last))


def _report_of(done: Future[list[DeliveryReport]]) -> DeliveryReport:
    if done.cancelled():
        return DeliveryReport(reason="the engine stops")
    problem = done.exception()
    return DeliveryReport(reason=reason_of(problem)) if problem is not None else done.result()[0]
