"""The same results on a real standalone cluster, also when executors are killed: `./run test-cluster`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.cluster.standalone import Cluster, standalone
from tests.support.faults.victim import Run, Victim, check_results, check_state, clean_start
from tests.support.strangers import answer_to_a_stranger, check_rejected
from tests.support.waiting import PATIENCE, eventually
from watersmeet.session import SECRET_VARIABLE

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_VARIABLE, cluster.secret)
        yield cluster


def test_the_master_and_the_driver_reject_strangers(cluster: Cluster, victim: Callable[..., Victim]) -> None:
    run = victim(ticks=6, master=cluster.address).start()
    _wait_for_executors(cluster, run)
    commands = [" ".join(executor.cmdline()) for executor in cluster.executors()]
    driver = re.search(r"CoarseGrainedScheduler@(\S+):(\d+)", commands[0])
    assert driver is not None
    for host, port in (("127.0.0.1", cluster.port), (driver[1], int(driver[2]))):
        check_rejected(answer_to_a_stranger(port, host))
    java = psutil.Process(run.process.pid).children()
    assert not [text for text in (*commands, *(" ".join(one.cmdline()) for one in java)) if cluster.secret in text]
    run.wait()


def test_without_the_secret_of_the_cluster_nothing_runs(
    cluster: Cluster, victim: Callable[..., Victim], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE)
    home = victim(ticks=2, master=cluster.address)
    run = home.start()
    run.wait(may_fail=True)
    assert home.last_code != 0
    assert SECRET_VARIABLE in run.tail() and "no secret is set" in run.tail()


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_cluster_gives_the_same_results(cluster: Cluster, victim: Callable[..., Victim], partitions: int) -> None:
    home = victim(ticks=6, partitions=partitions, master=cluster.address)
    run = home.start()
    _wait_for_executors(cluster, run)
    assert len(cluster.executors()) == 2, "both workers take part"
    run.wait()
    assert home.last_code == 0
    check_results(home)
    check_state(home)


@pytest.mark.parametrize("partitions", [1, 3])
def test_executors_are_killed_while_they_write(
    cluster: Cluster, victim: Callable[..., Victim], partitions: int
) -> None:
    home = victim(ticks=8, partitions=partitions, plans=("kept",), master=cluster.address)
    home.finish("gather.write:5:java", "results.write:8:java", "keep.write:3:java", "merge.write:2:java")
    check_results(home)
    clean_start(home)  # the files of the tasks that died stay until the next start
    check_state(home)


@pytest.mark.parametrize("in_parts", [False, True], ids=["a tick is one order", "in parts"])
def test_an_executor_is_killed_while_its_resident_works(
    cluster: Cluster, victim: Callable[..., Victim], in_parts: bool
) -> None:
    """There are two slots, so it is the only resident, and the engine goes on with one in another executor."""
    home = victim(ticks=8, master=cluster.address, options=["--in-parts"] if in_parts else [])
    home.finish("resident.begin:1:java", "resident.order:3:java", "gather.write:12:java", "resident.reply:4:java")
    assert home.starts == 1
    check_results(home)
    clean_start(home)
    check_state(home)


def test_executors_are_killed_from_outside(cluster: Cluster, victim: Callable[..., Victim]) -> None:
    home = victim(ticks=10, partitions=3, plans=("kept",), master=cluster.address)
    run = home.start()
    killed = 0
    for lines in (4, 7):  # "started", then a line for each tick
        run.wait_for_lines(lines)
        assert run.process.poll() is None
        executor = cluster.executors()[0]
        executor.kill()
        executor.wait(PATIENCE)
        killed += 1
    run.wait()
    assert home.last_code == 0 and killed == 2
    check_results(home)
    clean_start(home)
    check_state(home)


def _wait_for_executors(cluster: Cluster, run: Run) -> None:
    run.wait_for_lines(2)
    eventually(lambda: len(cluster.executors()) == 2 or run.process.poll() is not None)
