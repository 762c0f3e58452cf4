"""Files of a dead process that appear after the recovery from its death: nobody takes them for anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault.stepwise import Stepwise
from tests.support.faults.victim import Victim, check_results, check_state, clean_start, state_files
from tests.support.faults.workload import make_case
from tests.support.processes import python_process
from tests.support.waiting import PATIENCE
from watersmeet.home import layout
from watersmeet.home.layout import STAGING
from watersmeet.home.manifest import load_earlier, load_newest
from watersmeet.home.recovery import named_files

TICKS = 9


def unnamed_files(home: Path) -> list[Path]:
    """What an attempt left that was not committed: buckets, staged results, the draft of a manifest, its orders.

    Files of the manifest before the newest stay for another tick."""
    newest = load_newest(home)
    named = named_files([newest, *load_earlier(home, newest.tick)[:1]])
    state = [home / file for file in state_files(home) - named]
    others = [*home.glob(f"*/*/{STAGING}/*"), *home.glob("manifests/*.draft"), *home.glob("orders/**/*")]
    return sorted(path for path in (*state, *others) if path.is_file())


def write_late(home: Path, late: dict[Path, bytes]) -> None:
    for path, content in late.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(content)


@pytest.mark.parametrize("share", [0.5, 1.0], ids=["half written", "whole"])
def test_files_of_an_attempt_that_was_never_committed(tmp_path: Path, share: float) -> None:
    engine = Stepwise(tmp_path, make_case(TICKS))
    engine.run_until(4)
    engine.die_at("commit.before")
    layout.manifest_draft(tmp_path, 5, 4711).write_bytes(layout.manifest(tmp_path, 4).read_bytes())
    (tmp_path / "orders" / "0").mkdir(parents=True)
    (tmp_path / "orders" / "0" / "4.pickle").write_bytes(b"an order")
    left = unnamed_files(tmp_path)
    kinds = {path.suffix for path in left}
    assert kinds == {".bucket", ".staged", ".draft", ".pickle"} and any("-m" in path.name for path in left)
    late = {path: path.read_bytes()[: int(path.stat().st_size * share)] for path in left}
    engine.restart()
    assert not unnamed_files(tmp_path)
    engine.run_until(6)
    write_late(tmp_path, late)
    engine.run_until(8)
    assert {path: path.read_bytes() for path in left} == late, "somebody used a name of the dead attempt"
    engine.restart()
    assert not unnamed_files(tmp_path)
    engine.run_until(TICKS)
    engine.check_answers()


def test_a_late_staged_file_does_not_replace_the_result_that_is_published(tmp_path: Path) -> None:
    engine = Stepwise(tmp_path, make_case(TICKS))
    engine.run_until(3)
    engine.die_at("publish.before")  # committed: the next start publishes its results
    late = {Path(file.staged): Path(file.staged).read_bytes()[:100] for file in load_newest(tmp_path).results}
    assert late
    engine.restart()
    write_late(tmp_path, late)
    engine.restart()
    assert not unnamed_files(tmp_path)
    engine.run_until(TICKS)
    engine.check_answers()


ORPHAN = """
import shutil, sys, time
from pathlib import Path
home, kept, tick = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
while not any(int(path.stem) >= tick for path in (home / "manifests").glob("*.json")):
    time.sleep(0.01)
shutil.copytree(kept, home, dirs_exist_ok=True)
"""


@pytest.mark.soak
def test_an_orphan_writes_after_the_engine_recovered_and_went_on(victim: Callable[..., Victim]) -> None:
    """The killed engine's files, written by a process that outlives it, while the next engine runs."""
    home = victim(ticks=14, reader="spark")
    home.killed_at("results.write:25:tree")  # in the middle of a tick, with its buckets and some results written
    died_in = load_newest(home.home).tick + 1
    home.home.joinpath("manifests", f"{died_in:012d}.4711.draft").write_text('{"format":')
    left = unnamed_files(home.home)
    assert {path.suffix for path in left} == {".bucket", ".staged", ".draft", ".plan"}
    for path in left:
        kept = home.folder / "kept" / path.relative_to(home.home)
        kept.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        kept.write_bytes(content[: len(content) // 2] if path.suffix in (".bucket", ".staged") else content)
    with python_process(ORPHAN, home.home, home.folder / "kept", died_in + 3) as orphan:
        home.finish()
        assert orphan.wait(PATIENCE) == 0
    check_results(home)
    assert all(path.exists() for path in left), "the orphan has written"
    clean_start(home)
    assert not unnamed_files(home.home)
    check_state(home)
    check_results(home)


@pytest.mark.soak
def test_a_late_order_does_not_reach_the_tasks_of_the_next_engine(victim: Callable[..., Victim]) -> None:
    """The dead engine had fewer queries: a task that obeyed its order would not store what the others read."""
    home = victim(ticks=4, reader="spark")
    assert home.run("gather.write:1:driver", more=["--queries", "paid,paid_late,again"]) == ["gather.write"]
    (order,) = (home.home / "orders").rglob("*.pickle")
    (home.folder / "order").write_bytes(order.read_bytes())
    assert home.run(more=["--late-order", str(home.folder / "order"), str(order)]) == []
    check_results(home)
    assert order.exists(), "the late order was not written"
