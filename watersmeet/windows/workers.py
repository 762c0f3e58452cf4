"""The operators of windows in tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import pyarrow as pa

from watersmeet.home.counters import Counters
from watersmeet.home.manifest import BucketInfo
from watersmeet.plan.ruleset import WindowRule
from watersmeet.runtime.tick.orders import Order, WritingOrder
from watersmeet.store.kernels import I64
from watersmeet.windows.closing import Closing
from watersmeet.windows.pairs.task import PairsWorking
from watersmeet.windows.slices.task import SlicesWorking
from watersmeet.windows.sql.task import SqlWorking, TaskSqlWorking
from watersmeet.windows.working import Handler, Host, Intake, Working

OPERATORS: tuple[type[Working], ...] = (SlicesWorking, PairsWorking, TaskSqlWorking, SqlWorking)


def fills(closing: Closing) -> list[Order]:
    """Orders that put stored rows into stores of windows that are new."""
    return [order for each in OPERATORS for order in each.ticking.fills(closing) if order.tasks]


def window_orders(closing: Closing) -> list[Order]:
    """Orders for windows that a tick closes, of all operators whose tasks compute them."""
    return [order for each in OPERATORS for order in each.ticking.orders(closing) if order.tasks]


class Operators:
    """The operators of one worker."""

    def __init__(self, host: Host) -> None:
        self._by_name = {each.name: each(host) for each in OPERATORS}

    @property
    def handlers(self) -> dict[type, Handler]:
        return {kind: handler for each in self._by_name.values() for kind, handler in each.handlers.items()}

    def of_stream(self, order: WritingOrder, stream: str, task: str, without: Collection[str] = ()) -> Intake:
        """Takes the rows of a stream into the stores of windows that are made of them, for some query that is not
        left out."""
        stores = order.rules.intakes.get(stream, {})
        if without:
            read = {store for rule in order.rules.windows if rule.query.name not in without for store, _ in rule.reads}
            stores = {name: {each for each in found if each in read} for name, found in stores.items()}
        return _Intakes([self._by_name[name].intake(order, found, task) for name, found in stores.items()])

    def of_results(self, order: WritingOrder, rule: WindowRule, task: str) -> Intake:
        """Takes the results of the join below a windowed query."""
        return self._by_name[rule.operator].intake(order, {store for store, _ in rule.reads}, task)

    def forget(self) -> None:
        for each in self._by_name.values():
            each.forget()


class _Intakes:
    """Several intakes as one."""

    def __init__(self, intakes: list[Intake]) -> None:
        self._intakes = intakes

    def __bool__(self) -> bool:
        return bool(self._intakes)

    @property
    def wants_earliest(self) -> bool:
        return any(intake.wants_earliest for intake in self._intakes)

    def add(self, rows: pa.RecordBatch, tau: I64, earliest: I64 | None = None) -> None:
        for intake in self._intakes:
            intake.add(rows, tau, earliest)

    def finish(self, counts: Counters) -> Iterable[BucketInfo]:
        return chain.from_iterable(intake.finish(counts) for intake in self._intakes)

    def abandon(self) -> Iterable[BucketInfo]:
        return chain.from_iterable(intake.abandon() for intake in self._intakes)
