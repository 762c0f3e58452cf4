"""`./run test-long -k little_memory`: a thousand ticks of aggregates over a join on a unique key, in 3 GB of memory.

Ten windowed aggregates of impressions and their clicks, by factors (which is what a start without statistics takes) and
by pairs. The system ends what needs more than 3 GB (`memory.limit_in_bytes` of a control group, where this user may
make one); all results equal those of a loop of DuckDB, and memory at the end is that of tick 200."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psutil
import pytest

from bench.research import command
from bench.windows.ads import answers_of_loop, compare_with_loop, known_statistics, results_of
from bench.windows.advertising import STREAMS, aggregations_of_join
from bench.windows.advertising_rows import write_rows
from tests.support.processes import environment, kill_tree
from tests.support.waiting import eventually
from watersmeet.home import layout
from watersmeet.home.manifest import load_newest

pytestmark = pytest.mark.long

TICKS, ROWS = 1000, 4000
LIMIT = 3 << 30
TASK_MEMORY = 1024
FULL = 200  # ticks after which all windows are full, and all that is kept is there
GROWTH = 1.25  # of the medians of fifty ticks
CONTROL_GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.mark.parametrize("form", ["factorized", "pairs"])
def test_a_thousand_ticks(tmp_path: Path, form: str) -> None:
    questions = aggregations_of_join()
    write_rows(tmp_path / "in", TICKS, ROWS)
    home, script = tmp_path / "home", tmp_path / "pipeline.sql"
    if form == "pairs":
        home.mkdir()
        known = known_statistics(tmp_path / "in", max(each.range for each in questions))
        (home / layout.STATISTICS).write_text(json.dumps({"statistics": known}))
    script.write_text(STREAMS.format(folder=tmp_path / "in") + "".join(each.watersmeet for each in questions))
    memory = memory_of_run(script, home, tmp_path / "log")
    assert load_newest(home).tick >= TICKS
    assert not load_newest(home).suspended
    assert form in (home / layout.SLICES).read_text()
    answers_of_loop(tmp_path, questions, TICKS, FULL, 1)
    for each in questions:
        compare_with_loop(tmp_path, each, results_of(home, each))
    assert max(sum(found.values()) for found in memory.values()) < LIMIT
    grown = {}
    for name in ("driver", "tasks"):
        early, late = (median_from(memory, name, begin) for begin in (FULL, TICKS - 50))
        print(f"{form}, memory of {name}: {early / 1e6:,.0f} MB at tick {FULL}, at the end {late / 1e6:,.0f} MB")
        if late > GROWTH * early:
            grown[name] = f"{early:,.0f} became {late:,.0f}"
    assert not grown


def median_from(memory: dict[int, dict[str, int]], name: str, tick: int) -> float:
    return median(found[name] for at, found in memory.items() if tick <= at < tick + 50)


def memory_of_run(script: Path, home: Path, log: Path) -> dict[int, dict[str, int]]:
    """Run a pipeline until its input is processed: by tick, the memory of the driver, of Java, and of tasks."""
    found: dict[int, dict[str, int]] = {}
    with limited() as begin, log.open("w") as output:
        run = command(script, home, {"task_memory": TASK_MEMORY})
        process = subprocess.Popen([*begin, *run], stdout=output, stderr=output, env=environment())
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError, IndexError, ValueError):
                    last = (home / layout.TICKS).read_bytes()[-2000:].splitlines()[-1]
                    found[json.loads(last)["tick"]] = memory_of(process.pid)
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                kill_tree(process.pid)
    assert process.returncode == 0, log.read_text()[-3000:]
    return found


def memory_of(root: int) -> dict[str, int]:
    found = dict.fromkeys(("driver", "Java", "tasks"), 0)
    driver = psutil.Process(root)
    for process in (driver, *driver.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            kind = "driver" if process == driver else "Java" if "java" in process.name() else "tasks"
            found[kind] += process.memory_full_info().pss
    return found


@contextlib.contextmanager
def limited() -> Iterator[list[str]]:
    """How a command begins that may have so much memory with all that it starts; as it is where nobody limits it."""
    group = CONTROL_GROUPS / f"watersmeet-{time.time_ns()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError:
        yield []
        return
    try:
        yield ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        eventually(lambda: not (group / "cgroup.procs").read_text())  # Spark's workers end a little later
        group.rmdir()
