"""Files of input folders in real life: half written, rewritten, no files at all, very many. Each row is read once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support.clock import clock_of
from tests.support.deaths import dying_at, silent_threads
from tests.support.earlier_version import with_positions
from tests.support.inside import abandon, feeds_of
from tests.support.parquet_input import seconds_after_epoch
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.cli.app import app
from watersmeet.home import layout
from watersmeet.home.manifest import load_newest
from watersmeet.io import folders
from watersmeet.io.folders import Folder
from watersmeet.io.positions import load_positions

OLD = 1_700_000_000  # seconds: long settled
SQL = """
CREATE STREAM x (ts TIMESTAMP, id BIGINT) TIMESTAMP BY ts LATENESS 1 HOUR FROM parquet '{folder}/x' {options};
CREATE STREAM y (ts TIMESTAMP, id BIGINT) TIMESTAMP BY ts LATENESS 1 HOUR FROM parquet '{folder}/y' {options};
CREATE QUERY all_x AS SELECT x.id FROM x WINDOW 1 SECOND;
CREATE QUERY all_y AS SELECT y.id FROM y WINDOW 1 SECOND;
"""


def content(*ids: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"ts": seconds_after_epoch(ids), "id": pa.array(ids, pa.int64())}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def engine_on(folder: Path, options: str = "", settle_seconds: float = 0.3) -> Engine:
    engine = Engine(home=folder / "home", executor="local", settle_seconds=settle_seconds)
    for name in "xy":
        (folder / name).mkdir(exist_ok=True)
    engine.sql(SQL.format(folder=folder, options=options))
    return engine


def ids(home: Path, query: str) -> list[int]:
    files = sorted((home / "results" / query).glob("*.parquet"))
    return sorted(value for file in files for value in pq.read_table(file)["id"].to_pylist())


def aside(engine: Engine, stream: int = 0) -> dict[str, int]:
    return dict(engine.stats().streams[stream].set_aside)


def write_old(path: Path, data: bytes, second: int = OLD) -> None:
    path.write_bytes(data)
    os.utime(path, (second, second))


def looks_at(monkeypatch: pytest.MonkeyPatch) -> list[Folder]:
    """The looks at folders that have ended: two for each of both folders, and what was written before them is seen."""
    looks: list[Folder] = []
    look = Folder.look

    def noted(self: Folder) -> None:
        look(self)
        looks.append(self)

    monkeypatch.setattr(Folder, "look", noted)
    return looks


@pytest.mark.parametrize("begin", [0, 100])
def test_a_file_that_is_still_being_written_is_read_once_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    clock, looks = clock_of(monkeypatch, folders), looks_at(monkeypatch)
    whole = content(1, 2, 3)
    path = tmp_path / "x/1.parquet"
    with engine_on(tmp_path, settle_seconds=1) as engine:
        path.write_bytes(whole[:begin])
        (tmp_path / "x/2.parquet").write_bytes(content(4))
        engine.start()
        eventually(lambda: ids(tmp_path / "home", "all_x") == [4])
        for size in range(begin, len(whole), 100):  # for longer than it takes to settle
            with path.open("ab") as file:
                file.write(whole[size : size + 100])
            before = len(looks)
            eventually(lambda before=before: len(looks) > before + 4)  # type: ignore[misc]
            clock.pass_by(0.9)
        clock.pass_by(0.1)
        eventually(lambda: ids(tmp_path / "home", "all_x") == [1, 2, 3, 4])
        assert aside(engine) == {}
    assert not layout.rejected_files(tmp_path / "home", "x").exists()


def test_a_file_that_stays_unreadable_is_set_aside_when_it_has_settled(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/1.parquet").write_bytes(b"never a file of parquet")
    with engine_on(tmp_path) as engine:
        engine.run_once()
        assert aside(engine) == {"unreadable files": 1}
        (listed,) = map(json.loads, layout.rejected_files(tmp_path / "home", "x").read_text().splitlines())
        assert listed["file"] == str(tmp_path / "x/1.parquet") and "is not a readable Parquet file" in listed["because"]
        engine.run_once()
        assert aside(engine) == {"unreadable files": 1}
        write_old(tmp_path / "x/1.parquet", content(1))  # a file that was not read and changes is tried again
        engine.run_once()
        assert ids(tmp_path / "home", "all_x") == [1]
        engine.run_once()
    assert ids(tmp_path / "home", "all_x") == [1]


def test_retry_rejected_takes_files_that_were_set_aside_exactly_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with engine_on(tmp_path) as engine:
        whole = content(1)
        write_old(tmp_path / "x/1.parquet", b"x" * len(whole))
        write_old(tmp_path / "x/2.parquet", content(2))
        write_old(tmp_path / "y/1.parquet", b"worse")
        engine.run_once()
        assert (aside(engine), aside(engine, 1)) == ({"unreadable files": 1}, {"unreadable files": 1})
    # Completed with the size and the date that it had, so nothing shows that it is another one.
    write_old(tmp_path / "x/1.parquet", whole)
    with engine_on(tmp_path) as engine:
        engine.run_once()
        assert ids(home, "all_x") == [2]
    said = CliRunner().invoke(app, ["retry-rejected", "--home", str(home)])
    assert (said.exit_code, "x: 1 file is read again at the next start" in said.output) == (0, True), said.output
    assert "y: 1 file is read again" in said.output and "1.parquet" in said.output
    for _ in range(2):
        with engine_on(tmp_path) as engine:
            engine.run_once()
            assert ids(home, "all_x") == [1, 2]
            assert aside(engine, 1) == {"unreadable files": 2}  # tried again, and still bad
    assert not layout.retry_request(home, "x").exists()
    assert CliRunner().invoke(app, ["retry-rejected", "x", "--home", str(home)]).output == "no file is set aside\n"
    assert "there is no stream z" in CliRunner().invoke(app, ["retry-rejected", "z", "--home", str(home)]).stderr


def test_retry_rejected_reaches_a_running_engine(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with engine_on(tmp_path) as engine:
        write_old(tmp_path / "x/1.parquet", b"bad")
        engine.start()
        eventually(lambda: aside(engine) == {"unreadable files": 1})
        said = CliRunner().invoke(app, ["retry-rejected", "x", "--home", str(home)])
        assert "x: 1 file is read again with the next tick" in said.output
        eventually(lambda: aside(engine) == {"unreadable files": 2})
        eventually(lambda: not layout.retry_request(home, "x").exists())


@pytest.mark.parametrize("point", ["positions.before", "tick.begin", "commit.before", "publish.before"])
@pytest.mark.parametrize("completed", [False, True])
def test_a_kill_around_an_unreadable_file_loses_nothing_and_repeats_nothing(
    tmp_path: Path, point: str, completed: bool
) -> None:
    home = tmp_path / "home"
    engine = engine_on(tmp_path)
    write_old(tmp_path / "x/1.parquet", b"bad")
    write_old(tmp_path / "x/2.parquet", content(2))
    with dying_at(point), silent_threads():
        engine.start(once=True)
        assert feeds_of(engine).running["0"].wait(PATIENCE)
    tick = load_newest(home).tick
    assert tick == (1 if point == "publish.before" else 0)
    abandon(engine)
    if completed:
        write_old(tmp_path / "x/1.parquet", content(1), OLD + 1)
    for _ in range(3):
        with engine_on(tmp_path) as engine:
            engine.run_once()
            assert ids(home, "all_x") == ([1, 2] if completed else [2]), tick
    was_committed = point == "publish.before"
    assert aside(engine) == ({} if completed and not was_committed else {"unreadable files": 1})


@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_that_is_rewritten_is_counted_once_and_not_read_again(tmp_path: Path, in_place: bool) -> None:
    path = tmp_path / "x/1.parquet"
    with engine_on(tmp_path) as engine:
        write_old(path, content(1))
        engine.start()
        eventually(lambda: ids(tmp_path / "home", "all_x") == [1])
        if in_place:
            with path.open("r+b") as file:  # in one step: no look finds an empty file
                file.write(content(1, 2, 3))
        else:
            (tmp_path / "x/_new").write_bytes(content(1, 2, 3))
            (tmp_path / "x/_new").rename(path)
        eventually(lambda: aside(engine) == {"rewritten files": 1})
    for _ in range(2):
        with engine_on(tmp_path) as engine:
            engine.run_once()
            assert aside(engine) == {"rewritten files": 1}
    write_old(path, content(5))  # while no engine runs
    for _ in range(2):
        with engine_on(tmp_path) as engine:
            engine.run_once()
            assert aside(engine) == {"rewritten files": 2}
    assert ids(tmp_path / "home", "all_x") == [1]
    assert "is not read again" in layout.rejected_files(tmp_path / "home", "x").read_text()
    assert "2 rewritten files" in CliRunner().invoke(app, ["stats", "--home", str(tmp_path / "home")]).output


def test_pipes_devices_and_links_to_nowhere_block_nothing(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        os.mkfifo(tmp_path / "x/1.parquet")
        (tmp_path / "x/2.parquet").symlink_to("/dev/zero")
        (tmp_path / "x/3.parquet").symlink_to(tmp_path / "gone")
        write_old(tmp_path / "x/4.parquet", content(4))
        write_old(tmp_path / "y/1.parquet", content(1))
        engine.run_once()
        assert (ids(tmp_path / "home", "all_x"), ids(tmp_path / "home", "all_y")) == ([4], [1])
        assert aside(engine) == {}


@pytest.mark.parametrize("special", ["a[1]", "{b,c}", "what?", "star*", "co:lon"])
def test_a_folder_with_special_characters_is_a_folder(tmp_path: Path, special: str) -> None:
    folder = tmp_path / special
    folder.mkdir()
    with engine_on(folder) as engine:
        write_old(folder / "x/1.parquet", content(1))
        engine.run_once()
    with engine_on(folder) as engine:
        write_old(folder / "x/2.parquet", content(2))
        engine.run_once()
    assert ids(folder / "home", "all_x") == [1, 2]


def test_many_files_are_read_in_ticks_of_bounded_size(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        for number in range(2300):
            write_old(tmp_path / f"x/{number}.parquet", content(number), OLD + number)
        engine.run_once()
        assert engine.stats().tick == 3
    assert ids(tmp_path / "home", "all_x") == list(range(2300))


def test_a_home_of_an_earlier_version_resumes(tmp_path: Path) -> None:
    """Its positions have names only: what they stand for is not known, so nothing counts as rewritten."""
    home = tmp_path / "home"
    with engine_on(tmp_path) as engine:
        for number in (1, 2):
            write_old(tmp_path / f"x/{number}.parquet", content(number), OLD + number)
            engine.run_once()
    with_positions(home, "0.jsonl", [{"batch": at, "files": {"x": [f"{at + 1}.parquet"]}} for at in range(2)])
    for number in (3, 4):
        with engine_on(tmp_path) as engine:
            write_old(tmp_path / f"x/{number}.parquet", content(number), OLD + number)
            engine.run_once()
            assert aside(engine) == {}
    assert ids(home, "all_x") == [1, 2, 3, 4]


def test_positions_whose_beginning_is_lost_are_rejected(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with engine_on(tmp_path) as engine:
        for number in (1, 2):
            write_old(tmp_path / f"x/{number}.parquet", content(number), OLD + number)
            engine.run_once()
    log = load_positions(home, "0").path
    shutil.copy(log, tmp_path / "log")
    log.write_text(log.read_text().splitlines(keepends=True)[1])
    with pytest.raises(Exception, match="lines before it are missing"):
        engine_on(tmp_path).run_once()
    shutil.copy(tmp_path / "log", log)
    with engine_on(tmp_path) as engine:
        engine.run_once()
    assert ids(home, "all_x") == [1, 2]
