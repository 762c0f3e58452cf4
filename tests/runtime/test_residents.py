"""Resident tasks: how many there are, whom they leave room for, and what the engine does when one breaks.

`tests/fault/test_residents.py` strikes them at every point of a task; here is what can be seen from inside of the
engine's process. The session of the tests has four slots.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.deaths import subscribed
from tests.support.joining_engine import JoiningEngine, declare
from tests.support.residents import ConnectedResidents, connected_residents
from tests.support.waiting import PATIENCE, eventually, join
from watersmeet.errors import RunError, StateError
from watersmeet.home.manifest import BucketInfo, load_newest
from watersmeet.plan.ruleset import StreamStore
from watersmeet.runtime.exec import resident_pool as residents
from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.exec.link import Listener, limit_waiting
from watersmeet.runtime.exec.resident_pool import Residents
from watersmeet.runtime.exec.resident_task import Hello
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.tick.orders import MergeOrder
from watersmeet.store.merge import MergeJob
from watersmeet.store.placement import Placement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> ConnectedResidents:
    """The processes that are connected as residents, as the operating system names them."""
    return connected_residents(monkeypatch)


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path, processes: list[int]) -> Iterator[JoiningEngine]:
    made = declare(spark, tmp_path)
    with made.engine:
        made.engine.start()
        made.tick()
        eventually(lambda: len(processes) == 2)
        yield made
        made.check()


# How many ------------------------------------------------------------------------------------------------------------


def test_residents_take_half_of_the_slots(running: JoiningEngine, processes: list[int]) -> None:
    assert running.executor._slots() == 4
    assert running.residents.held == running.executor.parallelism == len(set(processes)) == 2
    running.tick(3)
    assert running.residents.held == len(set(processes)) == 2
    assert os.getpid() not in processes


def test_they_end_with_the_engine(spark: SparkSession, tmp_path: Path, processes: list[int]) -> None:
    one = declare(spark, tmp_path)
    with one.engine:
        one.engine.start()
        one.tick()
    eventually(lambda: not processes)
    tracker = spark.sparkContext.statusTracker()
    eventually(lambda: not tracker.getActiveJobsIds())


@pytest.mark.parametrize("residents", ["0", "1"])
def test_fewer_are_held_if_fewer_are_asked_for(
    spark: SparkSession, tmp_path: Path, processes: list[int], residents: str
) -> None:
    one = declare(spark, tmp_path, residents=residents)
    with one.engine:
        one.engine.start()
        one.tick(2)
        assert len(processes) == int(residents)
        if residents == "0":
            assert one.executor.residents is None
    one.check()


def test_where_spark_has_one_slot_each_order_is_a_job(
    spark: SparkSession, tmp_path: Path, processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkExecutor, "_slots", lambda self: 1)
    one = declare(spark, tmp_path)
    with one.engine:
        one.engine.start()
        one.tick(2)
        assert one.residents.held == 0 and not processes
        monkeypatch.setattr(SparkExecutor, "_slots", lambda self: 2)  # as if an executor had come
        eventually(lambda: len(processes) == 1)
        one.tick(2)
    one.check()


# Beside the ticks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("residents", [1, 2])
def test_ticks_do_not_wait_for_a_merge_and_leave_its_process_to_it_if_there_is_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, residents: int
) -> None:
    """The merge waits for a writer of what it reads, until the ticks have ended."""
    taken: list[int] = []
    take = Residents._take

    def noted(self: Residents, connection: Connection, hello: Hello) -> Any:
        task = take(self, connection, hello)
        if task is not None and task.order.rank == Rank.TICK:
            taken.append(hello.attempt)
        return task

    monkeypatch.setattr(Residents, "_take", noted)
    one = declare(spark, tmp_path, residents=str(residents))
    with one.engine:
        one.engine.start()
        one.tick()
        eventually(lambda: one.residents._connected[Rank.BESIDE] == residents)
        merging = one.executor.submit(endless_merge(tmp_path / "home"), Rank.BESIDE)
        eventually(lambda: one.residents._beside is not None)
        taken.clear()
        one.tick(4)
        assert not merging.done()
        assert len(taken) >= 4 and (one.residents._beside in taken) == (residents == 1)
        let_it_end(tmp_path / "home")
        (report,) = merging.result(PATIENCE)
        assert isinstance(report.failure, StateError), "what it read is no bucket"
        one.tick()
    one.check()


def test_without_a_connection_for_it_a_merge_is_done_between_the_ticks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = declare(spark, tmp_path, residents="1")
    serve = Residents._serve

    def lose(self: Residents, connection: Connection) -> None:
        if self._connected:  # the second one of the process
            connection.close()
        else:
            serve(self, connection)

    monkeypatch.setattr(Residents, "_serve", lose)
    with one.engine:
        one.engine.start()
        one.tick()
        assert set(one.residents._connected) == {Rank.TICK, Rank.AHEAD}
        order = merge_of(tmp_path / "home", "nothing")
        (report,) = one.executor.submit(order, Rank.BESIDE).result(PATIENCE)
        assert isinstance(report.failure, StateError)
        one.tick()
    one.check()


def merge_of(home: Path, file: str) -> MergeOrder:
    job = MergeJob((BucketInfo("l", file, 1, 1, 0, 0, 0, 1, 1),), 0)
    return MergeOrder(str(home), 1, "x", (job,), (StreamStore("l", (), (), (), Placement()),))


def endless_merge(home: Path) -> MergeOrder:
    os.mkfifo(home / "fifo")
    return merge_of(home, "fifo")


def let_it_end(home: Path) -> None:
    with open(home / "fifo", "wb"):
        pass


# Others in the same session ------------------------------------------------------------------------------------------


def test_jobs_of_users_and_results_run_beside_the_ticks(running: JoiningEngine, spark: SparkSession) -> None:
    done = threading.Event()
    problems: list[BaseException] = []
    counted: list[int] = []

    def use() -> None:
        try:
            while not done.is_set():
                assert spark.sparkContext.parallelize(range(1000), 8).map(lambda number: number % 7).sum() == 2997
                counted.append(running.engine["q"].results().count())
        except BaseException as problem:
            problems.append(problem)

    user = threading.Thread(target=use)
    user.start()
    try:
        eventually(lambda: bool(counted or problems))
        before = len(counted)
        running.tick(6)
        eventually(lambda: len(counted) > before + 1 or bool(problems))
    finally:
        done.set()
        join(user)
    assert not problems
    assert counted == sorted(counted), "results that were there stay there"
    assert running.residents.held == 2


def test_two_engines_share_the_slots(running: JoiningEngine, spark: SparkSession, tmp_path: Path) -> None:
    other = declare(spark, tmp_path / "other")
    with other.engine:
        other.engine.start()
        for _ in range(3):
            running.write()
            other.write()
            eventually(lambda: running.caught_up() and other.caught_up())
            assert running.residents.held + other.residents.held <= 2
        running.engine.stop()
        eventually(lambda: other.residents.held == 2)  # those that are free now
        other.tick(2)
    other.check()


# One breaks ----------------------------------------------------------------------------------------------------------


def test_a_resident_that_is_killed_between_ticks_is_replaced(running: JoiningEngine, processes: list[int]) -> None:
    for _ in range(3):
        victim = processes[0]
        os.kill(victim, signal.SIGKILL)
        running.tick()
        eventually(lambda gone=victim: gone not in processes and len(processes) == 2)  # type: ignore[misc]
    running.tick()


def test_all_residents_are_killed_at_once(running: JoiningEngine, processes: list[int]) -> None:
    for victim in list(processes):
        os.kill(victim, signal.SIGKILL)
    running.tick(2)
    eventually(lambda: len(processes) == 2)


def test_the_job_of_the_residents_is_cancelled(
    running: JoiningEngine, spark: SparkSession, processes: list[int]
) -> None:
    for _ in range(2):
        before = set(running.residents._jobs)
        running.write()
        spark.sparkContext.cancelAllJobs()
        eventually(running.caught_up)
        eventually(lambda before=before: not before & set(running.residents._jobs))  # type: ignore[misc]
        eventually(lambda: len(processes) == 2)
        running.tick()


def test_a_resident_that_hangs_is_replaced(running: JoiningEngine, processes: ConnectedResidents) -> None:
    stopped = list(processes)
    for victim in stopped:  # both, so that the next order meets one of them
        os.kill(victim, signal.SIGSTOP)
        processes.lose_patience(victim)
    try:
        running.tick(2)
        met = [victim for victim in stopped if victim not in processes]
        assert met, "a stopped process cannot have carried out the order"
        eventually(lambda: not any(psutil.pid_exists(victim) for victim in met))
    finally:
        for victim in stopped:
            if psutil.pid_exists(victim):
                os.kill(victim, signal.SIGCONT)
    eventually(lambda: len(processes) == 2)
    running.tick(2)


def test_whoever_lacks_the_key_gets_nothing_and_disturbs_nothing(running: JoiningEngine, processes: list[int]) -> None:
    (address, *others) = running.residents._listener.addresses
    assert isinstance(address, str) and not others, "nobody else can reach it"
    assert os.stat(os.path.dirname(address)).st_mode & 0o077 == 0
    silent = [_connected(address) for _ in range(5)]
    with _connected(address) as wrong:
        wrong.recv_bytes()  # a challenge
        wrong.send_bytes(b"{md5}" + bytes(16))
        assert wrong.recv_bytes() == b"#FAILURE#"
        with pytest.raises((EOFError, ConnectionError)):
            wrong.recv_bytes()
    with _connected(address) as noisy, pytest.raises((EOFError, OSError)):
        os.write(noisy.fileno(), b"\x7f\xff\xff\xff" + bytes(100_000))  # a message of two gigabytes
        while True:
            noisy.recv_bytes()
    assert len(processes) == 2
    running.tick(3)
    assert len(processes) == 2
    for connection in silent:
        connection.close()


def _connected(address: str) -> Connection:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(address)
    limit_waiting(made, PATIENCE)
    return Connection(made.detach())


def test_an_order_that_fails_each_time_fails_the_tick_and_the_next_start_repeats_it(
    spark: SparkSession, tmp_path: Path, processes: list[int]
) -> None:
    one = declare(spark, tmp_path)
    one.write()
    in_the_way = one.engine.home / "state" / "l"  # where a folder has to be
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("")
    tried: list[object] = []
    again = Residents._again

    def tell(self: Residents, task: Any, problem: BaseException) -> None:
        tried.append(problem)
        again(self, task, problem)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Residents, "_again", tell)
        with pytest.raises(RunError, match="a task failed 4 times") as raised:
            one.engine.run_once()
    assert "state/l" in raised.value.detail, "the cause is named"
    assert len(tried) == 4
    assert load_newest(one.engine.home).tick == 0
    in_the_way.unlink()
    with one.engine:
        one.engine.run_once()
        one.check()


def test_a_reply_that_cannot_be_read_is_asked_for_again(
    running: JoiningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of another version of this package, in an installation that is being replaced."""
    damaged: list[bytes] = []

    class Damaging:
        dumps = staticmethod(pickle.dumps)

        @staticmethod
        def loads(message: bytes) -> Any:
            if not damaged:
                damaged.append(message)
                raise pickle.UnpicklingError("damaged on the way")
            return pickle.loads(message)

    monkeypatch.setattr(residents, "pickle", Damaging)
    running.tick(2)
    assert damaged


@pytest.mark.thorough
def test_an_engine_ends_though_its_residents_hang(running: JoiningEngine, processes: list[int]) -> None:
    stopped = list(processes)
    for victim in stopped:
        os.kill(victim, signal.SIGSTOP)
    running.engine.stop()
    eventually(lambda: not any(psutil.pid_exists(victim) for victim in stopped))


def test_residents_of_other_hosts_connect_by_tcp(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = Listener.__init__

    def elsewhere(self: Listener, key: bytes, host: str | None, arrived: Callable[[Connection], None]) -> None:
        listen(self, key, "127.0.0.1", arrived)
        del self.addresses[0]  # of the Unix socket, as on a host where it is not

    monkeypatch.setattr(Listener, "__init__", elsewhere)
    one = declare(spark, tmp_path)
    with one.engine:
        one.engine.start()
        one.tick(3)
        eventually(lambda: one.residents._connected.total() == 2 * len(Rank))  # two residents
        one.tick()
    one.check()


def test_the_driver_passes_the_points_of_a_tick_that_is_one_order(running: JoiningEngine) -> None:
    """Those between gathering and probing are passed by the task."""
    reached: list[str] = []

    def hear(point: str, about: object) -> None:
        reached.append(point)

    with subscribed(hear):
        running.tick()
        eventually(lambda: "positions.before" in reached and "tick.end" in reached[reached.index("positions.before") :])
    of_the_tick = reached[reached.index("positions.before") :]  # before it: the end of the tick of the fixture
    assert of_the_tick[:3] == ["positions.before", "tick.begin", "probe.after"]
