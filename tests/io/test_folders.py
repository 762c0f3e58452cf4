"""Folders as sources: which files are new, what is remembered of them, how they are shared out and read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import clock_of
from tests.support.waiting import eventually
from watersmeet.errors import InputError
from watersmeet.home.counters import Reason
from watersmeet.io import folders, listing, source
from watersmeet.io.folders import FilePiece, Folder, InputFile, Noted, file_pieces, is_folder
from watersmeet.io.source import share_pieces
from watersmeet.io.taken_files import Stamp, TakenFiles
from watersmeet.io.watch import FolderWatch
from watersmeet.model import Column, Source, Stream

COLUMNS = (Column("ts", "timestamp"), Column("id", "bigint"), Column("word", "string"))
UNWATCHED = FolderWatch()
UNWATCHED.close()  # as where no changes are reported


def stream(path: Path | str, *options: tuple[str, str]) -> Stream:
    return Stream("x", COLUMNS, "ts", source=Source("parquet", str(path), options))


def share(files: Mapping[str, Sequence[InputFile]], tasks: int) -> tuple[tuple[FilePiece, ...], ...]:
    return share_pieces({name: file_pieces(name, some) for name, some in files.items()}, tasks)


def touch(path: Path, second: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (second, second))


def test_only_plain_folders_with_known_options_are_read_here(tmp_path: Path) -> None:
    assert is_folder(stream(tmp_path))
    assert is_folder(stream(tmp_path, ("maxFilesPerTrigger", "2")))
    assert not is_folder(stream(tmp_path, ("maxFilesPerTrigger", "many")))
    assert not is_folder(stream(tmp_path, ("mergeSchema", "true")))
    assert not is_folder(stream(tmp_path / "*.parquet"))
    (tmp_path / "a[1] {b}?").mkdir()
    assert is_folder(stream(tmp_path / "a[1] {b}?"))
    assert not is_folder(stream(tmp_path / "a[12] {b}?"))
    assert not is_folder(stream(f"file://{tmp_path}"))
    assert not is_folder(stream(tmp_path / "nowhere"))
    assert not is_folder(Stream("x", COLUMNS, "ts", source=Source("csv", str(tmp_path))))


def test_a_file_that_is_listed_and_passed_in_the_round_at_once_is_taken_once(tmp_path: Path) -> None:
    folder = Folder(stream(tmp_path, ("maxFilesPerTrigger", "1")), TakenFiles(), 5, UNWATCHED)
    taken: list[str] = []
    for number in range(12):
        touch(tmp_path / f"{number:02d}", number)
        folder.look()
        while files := folder.take():
            taken += files
    assert taken == [f"{number:02d}" for number in range(12)]


def test_a_batch_has_a_limited_number_of_rows_as_far_as_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_DEFAULT_ROWS", 100)
    for number in range(20):
        (tmp_path / f"{number:02d}").write_bytes(bytes(1000))
        os.utime(tmp_path / f"{number:02d}", (number, number))
    folder = Folder(stream(tmp_path), TakenFiles(), 5, UNWATCHED)
    bounded = Folder(stream(tmp_path, ("maxFilesPerTrigger", "6")), TakenFiles(), 5, UNWATCHED)
    for one in (folder, bounded):
        one.counted(90, 3000)  # 30 rows a file
        one.counted(0, 3000)  # of files without rows nothing is learned
        one.look()
    assert [len(folder.take()) for _ in range(2)] == [3, 3]
    folder.counted(3, 3000)
    assert len(folder.take()) == 14, "there are fewer in a file than before"
    assert len(bounded.take()) == 6, "a limit that the user sets is the only one"


def test_a_file_with_a_narrower_type_is_read(tmp_path: Path) -> None:
    rows = {"ts": pa.array([1], pa.timestamp("ms", tz="UTC")), "id": pa.array([7], pa.int16()), "word": pa.array(["a"])}
    pq.write_table(pa.table(rows), tmp_path / "a")
    piece = FilePiece("x", str(tmp_path / "a"), 1)
    assert [row["id"] for batch in piece.read(stream(tmp_path), {}) for row in batch.to_pylist()] == [7]
    pq.write_table(pa.table({**rows, "id": pa.array([7.0])}), tmp_path / "a")
    with pytest.raises(InputError, match="has id as DOUBLE; the stream declares BIGINT"):
        list(piece.read(stream(tmp_path), {}))


def test_names_of_files_that_are_gone_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_SPARE", 10)
    folder = Folder(stream(tmp_path), TakenFiles(), 5, UNWATCHED)
    for number in range(100):
        touch(tmp_path / f"{number:03d}", number)
        folder.look()
        assert list(folder.take()) == [f"{number:03d}"]
        (tmp_path / f"{number - 5:03d}").unlink(missing_ok=True)
    assert len(folder._seen) < 40
    for _ in range(20):
        folder.look()
        assert (folder.take(), folder.take_notes()) == ({}, [])


def test_files_come_by_date_each_once_and_hidden_ones_never(tmp_path: Path) -> None:
    for name, second in (
        ("b", 1),
        ("a", 2),
        ("below/c", 3),
        ("_draft", 1),
        (".d", 1),
        ("_below/e", 1),
        ("f._COPYING_", 1),
    ):
        touch(tmp_path / name, second)
    folder = Folder(stream(tmp_path, ("maxFilesPerTrigger", "2")), TakenFiles(), 5, UNWATCHED)

    def taken() -> list[str]:
        return list(folder.take())

    assert taken() == []
    folder.look()
    assert (taken(), taken(), taken()) == (["b", "a"], ["below/c"], [])
    touch(tmp_path / "g", 0)
    folder.look()
    assert taken() == ["g"]
    folder.look()
    assert (taken(), folder.take_notes()) == ([], [])


@given(sizes=st.lists(st.lists(st.integers(0, 1000), max_size=6), min_size=1, max_size=4), tasks=st.integers(1, 4))
def test_every_file_is_read_once_and_a_small_stream_by_one_task(sizes: list[list[int]], tasks: int) -> None:
    files = {
        f"s{at}": [InputFile(f"s{at}/{number}", Stamp(size, 0)) for number, size in enumerate(some)]
        for at, some in enumerate(sizes)
    }
    work = share(files, tasks)
    read = sorted(piece.file for pieces in work for piece in pieces)
    assert read == sorted(file.path for some in files.values() for file in some)
    assert len(work) <= tasks
    for name in files:
        assert sum(any(piece.stream == name for piece in pieces) for pieces in work) <= 1


def test_a_large_file_is_shared_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1.parquet"
    rows = pa.table({"ts": pa.array(range(100), pa.timestamp("us")), "id": range(100), "word": ["w"] * 100})
    pq.write_table(rows, path, row_group_size=30)
    monkeypatch.setattr(folders, "_SPLIT", 100)
    monkeypatch.setattr(source, "_TOGETHER", 100)
    found = path.stat()
    work = share({"x": [InputFile(str(path), Stamp(found.st_size, found.st_mtime_ns))]}, 2)
    assert sum(len(pieces) for pieces in work) > 2
    rows_read = [
        row
        for pieces in work
        for piece in pieces
        for batch in piece.read(stream(tmp_path), {})
        for row in batch["id"].to_pylist()
    ]
    assert sorted(rows_read) == list(range(100))


def test_columns_are_found_by_name_whatever_their_case_order_and_number(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    rows = {
        "more": [1],
        "WORD": pa.array(["w"]).dictionary_encode(),
        "ts": pa.array([5], pa.timestamp("us")),
        "Id": pa.array([7], pa.int32()),
    }
    pq.write_table(pa.table(rows), path)
    (batch,) = FilePiece("x", str(path), 1).read(stream(tmp_path), {})
    assert batch.schema.names == ["ts", "id", "word"]
    assert batch["id"].to_pylist() == [7]
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("us")), "id": [1]}), path)
    with pytest.raises(InputError, match="has no column word"):
        FilePiece("x", str(path), 1).read(stream(tmp_path), {})
    assert json.dumps(batch["word"].to_pylist()) == '["w"]'


def names(folder: Folder) -> list[str]:
    """The names that the next look finds."""
    folder.look()
    return list(folder.take())


def folder_of(path: Path, *options: tuple[str, str], settle: float = 0.2) -> tuple[Folder, TakenFiles]:
    taken = TakenFiles()
    return Folder(stream(path, *options), taken, settle, UNWATCHED), taken


def test_a_batch_is_bounded_in_files_and_bytes(tmp_path: Path) -> None:
    for number in range(2100):
        touch(tmp_path / f"{number:04d}", number)
    folder, _ = folder_of(tmp_path)
    assert [len(names(folder)) for _ in range(4)] == [1000, 1000, 100, 0]
    for number in range(3):
        (tmp_path / f"{number:04d}").write_bytes(b"x" * 10)
    folder, _ = folder_of(tmp_path, ("maxBytesPerTrigger", "25"))
    assert len(names(folder)) == 2097 + 2  # those that are not empty are the newest by now
    assert len(names(folder)) == 1
    folder, _ = folder_of(tmp_path, ("maxBytesPerTrigger", "5"))
    assert [len(names(folder)) for _ in range(4)] == [2097, 1, 1, 1]  # a file larger than the limit is taken alone


@pytest.mark.parametrize("made", [1, 20_000, 40_000])
def test_sharing_out_looks_at_each_file_once(made: int) -> None:
    class Counted(InputFile):
        looks = 0

        @property
        def stamp(self) -> Stamp:
            Counted.looks += 1
            return Stamp(1000, 0)

    work = share({"x": [Counted(f"{number}", Stamp(1000, 0)) for number in range(made)]}, 4)
    assert sum(map(len, work)) == made
    assert Counted.looks <= 2 * made
    assert max(map(len, work)) - min(map(len, work)) <= 1


def test_only_regular_files_are_found(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    touch(tmp_path / "a", 1)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folder, _ = folder_of(tmp_path)
    assert sorted(names(folder)) == ["a", "link"]
    with pytest.raises(InputError, match="pipe is not a regular file"):
        FilePiece("x", str(tmp_path / "pipe"), 0).read(stream(tmp_path), {})


def test_a_folder_that_has_not_changed_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: list[str]
) -> None:
    for number in range(100):
        touch(tmp_path / f"below/{number}", number)
    for folder_path in (tmp_path, tmp_path / "below"):
        os.utime(folder_path, (1_000_000.5, 1_000_000.5))
    folder, taken = folder_of(tmp_path)
    monkeypatch.setattr(folders, "_ROUND", 0)
    assert len(names(folder)) == len(taken) == 100
    listed.clear()
    assert (names(folder), listed) == ([], [])
    touch(tmp_path / "below/100", 5)
    assert (names(folder), listed) == (["below/100"], [str(tmp_path / "below")])


def test_a_name_that_came_within_one_instant_of_the_clock_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(monkeypatch, listing)
    folder, _ = folder_of(tmp_path)
    for number in range(50):
        touch(tmp_path / f"{number}", number)
        date = tmp_path.stat().st_mtime_ns
        clock.now = date / 1e9
        assert names(folder) == [f"{number}"]
        os.utime(tmp_path, ns=(date, date))
        touch(tmp_path / f"{number} at once", number)
        os.utime(tmp_path, ns=(date, date))  # as if the clock had not moved
        assert names(folder) == [f"{number} at once"]


def test_a_file_in_a_folder_with_a_false_date_is_found_by_the_round(tmp_path: Path) -> None:
    touch(tmp_path / "a", 1)
    os.utime(tmp_path, (1_000_000.5, 1_000_000.5))
    folder, _ = folder_of(tmp_path)
    assert names(folder) == ["a"]
    touch(tmp_path / "b", 1)
    os.utime(tmp_path, (1_000_000.5, 1_000_000.5))
    assert [name for _ in range(3) for name in names(folder)] == ["b"]


def test_a_file_that_could_not_be_read_is_tried_when_it_has_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(monkeypatch, folders)
    folder, taken = folder_of(tmp_path, settle=3)
    path = tmp_path / "a"
    path.write_bytes(b"half")
    folder.look()
    files = folder.take()
    assert folder.rejected(files, ["a"]) == ({"a"}, set())
    taken.give_back("a")
    assert (names(folder), folder.is_changing) == ([], True)
    for _ in range(4):  # it grows for longer than it takes to settle
        clock.pass_by(1)
        with path.open("ab") as file:
            file.write(b"more")
        assert names(folder) == []
    clock.pass_by(2.9)
    assert names(folder) == []
    clock.pass_by(0.1)
    files = looked_and_taken(folder)
    assert files == {"a": Stamp(20, path.stat().st_mtime_ns)}
    assert folder.rejected(files, ["a"]) == (set(), {"a"})
    taken.set_aside("a", files["a"])
    assert (names(folder), folder.is_changing) == ([], False)
    path.write_bytes(b"another")  # what was set aside and changes is tried again
    for _ in range(2):  # by the round
        assert names(folder) == []
    clock.pass_by(3)
    assert list(looked_and_taken(folder)) == ["a"]


def looked_and_taken(folder: Folder) -> dict[str, Stamp]:
    folder.look()
    return folder.take()


def test_an_old_file_that_cannot_be_read_is_set_aside_at_once(tmp_path: Path) -> None:
    touch(tmp_path / "a", 1)
    folder, _ = folder_of(tmp_path, settle=5)
    folder.look()
    assert folder.rejected(folder.take(), ["a"]) == (set(), {"a"})


def test_a_file_that_changes_after_it_was_read_is_noted_once(tmp_path: Path) -> None:
    touch(tmp_path / "a", 1)
    folder, _ = folder_of(tmp_path)
    assert names(folder) == ["a"]
    (tmp_path / "a").write_bytes(b"x")
    os.utime(tmp_path / "a", (2, 2))
    noted = eventually(lambda: (names(folder), folder.take_notes())[1])
    assert noted == [Noted("a", Stamp(1, 2 * 10**9), Reason.REWRITTEN_FILE)]
    assert [(names(folder), folder.take_notes()) for _ in range(5)] == [([], [])] * 5
