"""An interrupt (Ctrl-C, a notebook's stop button) ends what the main thread does, and not the engine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from tests.support.inside import opened
from tests.support.parquet_input import seconds_after_epoch, write_file
from tests.support.waiting import eventually, join
from watersmeet import Engine
from watersmeet.errors import RunError
from watersmeet.interrupts import restore, spare_jobs
from watersmeet.lifecycle import Lifecycle
from watersmeet.runtime.feed.streaming import StreamingFeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    """An engine whose stream is a query of Structured Streaming, with rows that never end."""
    with Engine(spark, home=tmp_path / "home") as engine:
        engine.stream("numbers", spark.readStream.format("rate").load(), time="timestamp")
        engine.query("all", "SELECT value FROM numbers [RANGE 1 SECOND] n")
        yield engine


def interrupted(call: Callable[[], object], waits: Callable[[], object]) -> None:
    """Interrupt a call of this thread once it waits."""

    def interrupt() -> None:
        eventually(waits)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    join(thread)


def main_thread_is_in(*codes: CodeType) -> bool:
    frame: FrameType | None = sys._current_frames()[threading.main_thread().ident or 0]
    found = set()
    while frame is not None:
        found.add(frame.f_code)
        frame = frame.f_back
    return found.issuperset(codes)


def goes_on(engine: Engine) -> None:
    tick = engine.stats().tick
    eventually(lambda: engine.stats().tick > tick + 2)
    assert engine.failure is None


def test_an_interrupt_ends_a_wait_and_not_the_engine(engine: Engine) -> None:
    engine.start()
    eventually(lambda: engine.stats().tick)
    interrupted(engine.wait, lambda: main_thread_is_in(Lifecycle.wait.__code__, StreamingFeed.wait.__code__))
    goes_on(engine)
    engine.stop()
    assert repr(engine).endswith("stopped>")


@pytest.mark.thorough
def test_interrupts_of_calls_to_java_do_not_end_the_engine(spark: SparkSession, engine: Engine) -> None:
    """Py4J cuts off connections of other threads with it, and repeats what they had called: once each."""
    java: Any = spark._jvm
    engine.start()
    for _ in range(3):
        goes_on(engine)
        gate = java.java.util.concurrent.Semaphore(0)
        interrupted(gate.acquire, gate.hasQueuedThreads)
        eventually(partial(is_released, gate))
    goes_on(engine)
    engine.stop()


def test_a_tick_is_repeated_where_calls_to_java_were_cut_off(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "r", 0, pa.table({"ts": seconds_after_epoch(range(5)), "a": range(5)}))
    engine = Engine(spark, home=tmp_path / "home")
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, a BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path}/r'")
    engine.query("all", "SELECT a FROM r [RANGE 1 SECOND] r")
    with engine:
        executor = opened(engine).executor
        problems: list[Exception] = [Py4JNetworkError("Answer from Java side is empty"), Py4JError("no answer")]

        def cut_off(submit: Callable[..., Any], *arguments: Any) -> Any:
            if problems:
                raise problems.pop()
            return submit(*arguments)

        monkeypatch.setattr(executor, "submit", partial(cut_off, executor.submit))
        engine.run_once()
        assert not problems
        assert sorted(row.a for row in engine["all"].results().collect()) == list(range(5))
        write_file(tmp_path / "r", 1, pa.table({"ts": seconds_after_epoch(range(5, 6)), "a": [5]}))
        problems += [Py4JNetworkError("Answer from Java side is empty") for _ in range(9)]
        with pytest.raises(RunError, match="a tick failed"):
            engine.run_once()


def is_released(gate: Any) -> bool:
    """The first calls after an interrupt may be cut off, too; one release more does no harm."""
    with contextlib.suppress(Py4JError):
        gate.release()
        return True
    return False


class Stand:
    """In place of an engine."""


def test_pyspark_has_its_handler_back_after_the_last_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.interrupts._engines", weakref.WeakSet())  # without those of other tests

    def handler(number: int, frame: object) -> None:
        raise AssertionError("would cancel all jobs")

    handler.__module__ = "pyspark.core.context"
    one, two = Stand(), Stand()
    before = signal.signal(signal.SIGINT, handler)
    try:
        spare_jobs(one)
        spare_jobs(two)
        restore(one)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        restore(two)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_programs_own_stays() -> None:
    one, before = Stand(), signal.getsignal(signal.SIGINT)
    own = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        spare_jobs(one)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        restore(one)
    finally:
        signal.signal(signal.SIGINT, own)
    assert signal.getsignal(signal.SIGINT) is before
