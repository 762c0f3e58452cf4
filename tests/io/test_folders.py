"""Folders as sources: which files are new, what is remembered of them, how they are shared out and read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InputError, StateError
from watersmeet.home import layout
from watersmeet.io import folders, positions
from watersmeet.io.folders import Folder, Piece, is_folder, read_piece, share
from watersmeet.io.positions import load_positions
from watersmeet.model import Column, Source, Stream

COLUMNS = (Column("ts", "timestamp"), Column("id", "bigint"), Column("word", "string"))


def stream(path: Path | str, *options: tuple[str, str]) -> Stream:
    return Stream("x", COLUMNS, "ts", source=Source("parquet", str(path), options))


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
    assert not is_folder(stream(f"file://{tmp_path}"))
    assert not is_folder(stream(tmp_path / "nowhere"))
    assert not is_folder(Stream("x", COLUMNS, "ts", source=Source("csv", str(tmp_path))))


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
    taken: set[str] = set()
    folder = Folder(stream(tmp_path, ("maxFilesPerTrigger", "2")), taken)
    assert folder.take() == []
    folder.look()
    assert (folder.take(), folder.take(), folder.take()) == (["b", "a"], ["below/c"], [])
    touch(tmp_path / "g", 0)
    folder.look()
    assert folder.take() == ["g"]
    assert taken == {"a", "b", "below/c", "g"}


def test_positions_survive_a_torn_line_and_being_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = load_positions(tmp_path, "0")
    log.begin({"x": ["a"], "y": ["b"]})
    log.begin({"x": ["c"]})
    path = layout.positions(tmp_path, "0")
    with path.open("a") as file:
        file.write('{"batch":2,"files":{"x":["d')
    for longest in (1 << 20, 1):
        monkeypatch.setattr(positions, "_LONG", longest)
        again = load_positions(tmp_path, "0")
        assert (again.batch, again.files) == (1, {"x": ["c"]})
        assert again.taken == {"x": {"a", "c"}, "y": {"b"}}
    assert len(path.read_text().splitlines()) == 1
    again.begin({"y": ["e"]})
    last = load_positions(tmp_path, "0")
    assert (last.batch, last.files, last.taken) == (2, {"y": ["e"]}, {"x": {"a", "c"}, "y": {"b", "e"}})


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    path = layout.positions(tmp_path, "0")
    path.parent.mkdir()
    path.write_text('{"batch":0,"files":{}}\n{"batch":1}\n')
    with pytest.raises(StateError, match=r"0.jsonl is damaged in line 2"):
        load_positions(tmp_path, "0")


@given(sizes=st.lists(st.lists(st.integers(0, 1000), max_size=6), min_size=1, max_size=4), tasks=st.integers(1, 4))
def test_every_file_is_read_once_and_a_small_stream_by_one_task(sizes: list[list[int]], tasks: int) -> None:
    files = {f"s{at}": [f"s{at}/{number}" for number in range(len(some))] for at, some in enumerate(sizes)}
    work = share(files, tasks)
    read = sorted(piece.path for pieces in work for piece in pieces)
    assert read == sorted(path for paths in files.values() for path in paths)
    assert len(work) <= tasks
    for name in files:
        assert sum(any(piece.stream == name for piece in pieces) for pieces in work) <= 1


def test_a_large_file_is_shared_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1.parquet"
    rows = pa.table({"ts": pa.array(range(100), pa.timestamp("us")), "id": range(100), "word": ["w"] * 100})
    pq.write_table(rows, path, row_group_size=30)
    monkeypatch.setattr(folders, "_SPLIT", 100)
    monkeypatch.setattr(folders, "_TOGETHER", 100)
    work = share({"x": [str(path)]}, 2)
    assert sum(len(pieces) for pieces in work) > 2
    found = [
        row
        for pieces in work
        for piece in pieces
        for batch in read_piece(stream(tmp_path), piece)
        for row in batch["id"].to_pylist()
    ]
    assert sorted(found) == list(range(100))


def test_columns_are_found_by_name_whatever_their_case_order_and_number(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    rows = {
        "more": [1],
        "WORD": pa.array(["w"]).dictionary_encode(),
        "ts": pa.array([5], pa.timestamp("us")),
        "Id": pa.array([7], pa.int32()),
    }
    pq.write_table(pa.table(rows), path)
    (batch,) = read_piece(stream(tmp_path), Piece("x", str(path), 1))
    assert batch.schema.names == ["ts", "id", "word"]
    assert batch["id"].to_pylist() == [7]
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("us")), "id": [1]}), path)
    with pytest.raises(InputError, match="has no column word"):
        read_piece(stream(tmp_path), Piece("x", str(path), 1))
    assert json.dumps(batch["word"].to_pylist()) == '["w"]'
