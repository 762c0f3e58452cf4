"""A home that is damaged, newer, or in use is rejected: with what is wrong and what to do, and nothing is changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fault.stepwise import Stepwise
from tests.support.faults.workload import make_case
from tests.support.processes import python_process
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import FORMAT, load_newest
from watersmeet.store.bucket import Bucket

TICKS, BEFORE = 8, 5  # the damage happens after the fifth tick
Damage = Callable[[Path], Path]  # damages a home, and says which file the message must name


def snapshot(home: Path) -> dict[Path, tuple[int, bytes]]:
    """Every file of a home with its time and content, but for the lock, which a rejected start may take."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "lock"]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def restore(home: Path, backup: dict[Path, tuple[int, bytes]]) -> None:
    for path in snapshot(home).keys() - backup.keys():
        path.unlink()
    for path, (_, content) in backup.items():
        path.write_bytes(content)


@pytest.fixture
def running(tmp_path: Path) -> Stepwise:
    engine = Stepwise(tmp_path / "home", make_case(TICKS))
    engine.run_until(BEFORE)
    return engine


def _largest_bucket(home: Path) -> Path:
    return max((home / bucket.file for bucket in load_newest(home).buckets), key=lambda path: path.stat().st_size)


def _newest_manifest(home: Path) -> Path:
    return layout.manifest(home, load_newest(home).tick)


def _truncated(path: Path, share: float) -> Path:
    os.truncate(path, int(path.stat().st_size * share))
    return path


def _flipped(path: Path, share: float, bit: int) -> Path:
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= bit
    path.write_bytes(content)
    return path


def torn_state(home: Path) -> Path:
    return _truncated(_largest_bucket(home), 0.5)


def empty_state(home: Path) -> Path:
    return _truncated(_largest_bucket(home), 0)


def flipped_state(home: Path) -> Path:
    return _flipped(_largest_bucket(home), 0.33, 0x10)


def missing_state(home: Path) -> Path:
    path = _largest_bucket(home)
    path.unlink()
    return path


def torn_manifest(home: Path) -> Path:
    return _truncated(_newest_manifest(home), 0.67)


def empty_manifest(home: Path) -> Path:
    return _truncated(_newest_manifest(home), 0)


def flipped_manifest(home: Path) -> Path:
    return _flipped(_newest_manifest(home), 0.5, 0x80)  # not even text any more


def newer_manifest(home: Path) -> Path:
    path = _newest_manifest(home)
    body = '{"buckets in a way that this version does not know":[]}'
    path.write_text(json.dumps({"format": FORMAT + 1, "checksum": zlib.crc32(body.encode())}) + "\n" + body)
    return path


def torn_groups(home: Path) -> Path:
    positions = home / "checkpoints" / "0" / "offsets" / str(BEFORE - 1)
    positions.parent.mkdir(parents=True)
    positions.touch()  # Spark would have written them, and the engine looks for them first
    path = home / "groups.json"
    path.write_text('{"0": {"orders": {"time": "ts"')
    return path


def missing_manifest(home: Path) -> Path:
    """The one before it would repeat the tick, whose results are there."""
    _newest_manifest(home).unlink()
    return home


def missing_manifests(home: Path) -> Path:
    for path in (home / layout.MANIFESTS).iterdir():
        path.unlink()
    return home


CASES: list[tuple[Damage, str, str]] = [
    (torn_state, "bytes, the manifest has", "restore the file from a backup"),
    (empty_state, "it has 0 bytes, the manifest has", "restore the file from a backup"),
    (flipped_state, "its checksum is not the one in the manifest", "restore the file from a backup"),
    (missing_state, "it is missing", "restore the file from a backup"),
    (torn_manifest, "is damaged", "restore the home folder from a backup"),
    (empty_manifest, "is damaged", "restore the home folder from a backup"),
    (flipped_manifest, "is damaged", "restore the home folder from a backup"),
    (newer_manifest, f"newer version of Watersmeet (format {FORMAT + 1}", "run the newer version on this home"),
    (torn_groups, "is damaged", "restore it from a backup"),
    (missing_manifest, f"that of tick {BEFORE - 1}, and a later tick was committed", "restore the home folder as a"),
    (missing_manifests, "that of tick 0, and a later tick was committed", "restore the home folder as a whole"),
]


@pytest.mark.parametrize(("damage", "wrong", "advice"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_damaged_home_is_rejected_until_it_is_restored(
    running: Stepwise, damage: Damage, wrong: str, advice: str
) -> None:
    backup = snapshot(running.home)
    path = damage(running.home)
    damaged = snapshot(running.home)
    with pytest.raises(StateError) as failure:
        engine_on(running.home).start()
    assert wrong in str(failure.value) and str(path) in failure.value.problem
    assert advice in failure.value.hint and "another --home" in failure.value.hint
    assert snapshot(running.home) == damaged, "the failed start changed something"
    restore(running.home, backup)
    running.restart()
    running.run_until(TICKS)
    running.check_answers()


@pytest.mark.parametrize("damage", [torn_state, empty_state, missing_state])
def test_a_task_does_not_read_a_damaged_bucket_either(running: Stepwise, damage: Damage) -> None:
    path = damage(running.home)
    info = next(bucket for bucket in running.manifest.buckets if running.home / bucket.file == path)
    with pytest.raises(StateError, match="is damaged") as failure:
        Bucket.open(running.home, info)
    assert str(path) in failure.value.problem and "restore the file from a backup" in failure.value.hint


@pytest.fixture
def holder(running: Stepwise, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that uses the home."""
    program = (
        "import sys, time; from pathlib import Path; from watersmeet.home.lock import home_lock\n"
        "with home_lock(Path(sys.argv[1])): Path(sys.argv[2]).touch(); time.sleep(3600)"
    )
    holding = tmp_path / "holding"
    with python_process(program, running.home, holding) as process:
        eventually(holding.exists)
        yield process


def test_a_second_engine_is_rejected_while_the_first_lives(running: Stepwise, holder: subprocess.Popen[bytes]) -> None:
    before = snapshot(running.home)
    for _ in range(2):  # a rejected one leaves the lock as it was
        with pytest.raises(StateError) as failure:
            engine_on(running.home).start()
        assert f"in use by process {holder.pid}" in failure.value.problem
        assert "stop that engine first" in failure.value.hint and "another --home" in failure.value.hint
    assert snapshot(running.home) == before
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(PATIENCE)
    with home_lock(running.home):
        running.restart()
        running.run_until(TICKS)
    running.check_answers()


def test_a_rejected_start_gives_the_home_back(running: Stepwise) -> None:
    path = torn_state(running.home)
    with pytest.raises(StateError, match=path.name):
        engine_on(running.home).start()
    with home_lock(running.home):
        pass


def engine_on(home: Path) -> Engine:
    """An engine that could start on the home, but for the damage; Spark is not needed to find that."""
    engine = Engine(home=home, executor="local")
    for stream in make_case(TICKS).streams:
        engine.sql(stream.reading("nowhere"))
    for query in make_case(TICKS).queries:
        engine.query(query.name, query.sql)
    return engine
