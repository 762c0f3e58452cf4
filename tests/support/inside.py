"""The inside of an engine, for tests that watch it, hold it up or let it die. No other test knows these parts."""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager

from tests.support.deaths import Died
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.adapt.plan_keeper import PlanKeeper
from watersmeet.runtime.feed.feed_set import Feeds
from watersmeet.runtime.loop import TickLoop


def opened(engine: Engine, accept: bool = False) -> TickLoop:
    """Its home is read and there is a plan; nothing runs yet."""
    engine._open(accept=accept)
    return loop_of(engine)


def loop_of(engine: Engine) -> TickLoop:
    assert engine._loop is not None
    return engine._loop


def keeper_of(engine: Engine) -> PlanKeeper:
    return engine._keeper


def feeds_of(engine: Engine) -> Feeds:
    return engine._feeds


def holding_up(loop: TickLoop) -> AbstractContextManager[None]:
    """No tick runs meanwhile, as if one were running."""
    return loop._taking_turn(None)


def published(engine: Engine) -> None:
    """Wait until no tick runs. A tick counts as committed some moments before its results are visible."""
    with holding_up(loop_of(engine)):
        pass


def ends(engine: Engine) -> bool:
    """Whether no further tick begins."""
    return engine._loop is None or engine._loop._finished


def run_feeds(engine: Engine) -> None:
    """As `run_once` of an engine that is opened, but a death at a point ends the feeds and nothing else happens."""
    engine._feeds.start(engine.pipeline.streams, engine._frames, once=True)
    for feed in list(engine._feeds.running.values()):
        assert feed.wait(PATIENCE)


def run_until_death(engine: Engine, died: threading.Event) -> None:
    """All input is processed and delivered, unless `dying_at` has a point on the way."""
    with contextlib.suppress(Died):
        engine.start(once=True)
        engine.wait(PATIENCE)
        eventually(lambda: engine._outbox.drain(0) or died.is_set())
    with engine._outbox._changed:
        engine._outbox._closed = True
        engine._outbox._changed.notify_all()


def abandon(engine: Engine) -> None:
    """What the death of the process would do: its children end, the lock is given back, and nothing is finished."""
    if engine._server is not None:
        engine._server.stop()
    engine._held.close()
