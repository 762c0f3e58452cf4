"""Named points of a tick, in the driver and in its tasks. Nothing happens there without a subscriber.

Fault tests subscribe: they kill, stop or disconnect a process at a point. The names are the keys of `POINTS`; `about`
is what a subscriber needs to distinguish one pass through a point from another.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = {
    # the driver, in the order of a tick
    "positions.before": "what the tick will read is not written down",
    "tick.begin": "it is, and no file of the tick is known to the driver",
    "gather.after": "the new buckets are",
    "phase.between": "and those of a materialized store that a later phase probes",
    "window.after": "the results of one window that Spark has computed",
    "release.after": "results that have waited are files of their queries, which nobody sees yet",
    "probe.after": "its results and merged buckets too",
    "commit.before": "about: the files that the tick makes superfluous, and those of them that were merged",
    "manifest.draft": "the manifest is written under the name of a draft",
    "manifest.linked": "the tick is committed, and the draft is still there",
    "publish.before": "no result file is visible",
    "publish.between": "one is, others are not",
    "discard.before": "about: the superfluous files, if any, which still exist",
    "discard.between": "some are deleted, others are not",
    "delivery.known": "a tick is delivered, and the manifest still names it",
    "tick.end": "all is done, but the source does not know it yet",
    # the driver, while it recovers
    "recover.back": "a damaged tick that nobody has seen is about to be removed",
    "recover.publish": "one result file of the last tick is visible, others are not",
    "recover.clear": "about: a folder with files of a tick that was not committed",
    # a task
    "resident.begin": "about: the connection to the driver, over which no order has come",
    "resident.order": "an order has come, and nothing of it is done",
    "resident.reply": "all of it is done, and the driver does not know it yet",
    "bucket.write": "about: the path of a bucket of which a part is written",
    "bucket.written": "about: the path of a bucket that is complete",
    "results.write": "about: the path of a result file of which a part is written",
    "results.written": "about: the path of a result file that is complete",
    "window.computed": "the results of one window that it has computed from rows",
    "waiting.write": "about: the path of a file in which results will wait, of which a part is written",
    "waiting.written": "about: the path of such a file that is complete",
    "target.open": "a target is about to be opened, to deliver results",
    "target.stepped_back": "a tick hangs, and its number is taken back (Kafka)",
    "target.cleared": "what hung of it is gone, and nothing of it is delivered again (Kafka)",
    "target.recovered": "it is open, and has said which ticks it has",
    "target.commit": "a tick is about to be delivered to it",
    "target.written": "all rows of the tick are written, and the target's transaction is not committed",
    "target.acknowledged": "about: the tick; the target says that it is, and nobody has seen it (Kafka)",
    "target.committed": "it is, and the driver does not know it yet",
    "target.compact": "small files of a target are about to be made one",
    "order.read": "about: the path of the order that a task of a streaming query is about to read",
}

Subscriber = Callable[[str, object], None]
_subscribers: list[Subscriber] = []


def subscribe(subscriber: Subscriber) -> None:
    _subscribers.append(subscriber)


def unsubscribe(subscriber: Subscriber) -> None:
    _subscribers.remove(subscriber)


def is_watched() -> bool:
    """Whether anybody hears of points: then a moment may be made exact that is not worth its time otherwise."""
    return bool(_subscribers)


def reach(point: str, about: object = None) -> None:
    for subscriber in _subscribers:
        subscriber(point, about)
