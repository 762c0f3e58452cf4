"""Logs whose last line a crash has torn, and disks that are full."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from watersmeet.home import disk, layout
from watersmeet.home.files import (
    advice_in,
    append,
    append_advice,
    append_durably,
    cut_torn_line,
    whole_lines,
    write_whole,
)

TORN = b'{"n": 2, "na'


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def records(path: Path) -> list[Any]:
    return [json.loads(line) for line in whole_lines(path)]


def test_a_file_is_seen_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "below" / "file.json"
    write_whole(path, "first")
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"second")
    assert path.read_text() == "first"
    monkeypatch.undo()
    write_whole(path, b"third")
    assert path.read_text() == "third"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("add", [append_durably, append])
def test_lines_are_added(tmp_path: Path, add: Any) -> None:
    path = tmp_path / "log.jsonl"
    assert whole_lines(path) == []
    add(path, [{"n": 0}, {"n": 1}])
    add(path, [{"n": 2}])
    assert records(path) == list(advice_in(path)) == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize("before", [b"", b'{"n": 1}\n'])
def test_a_torn_line_is_cut_off_before_the_next_durable_one(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(before + TORN)
    assert b"".join(line + b"\n" for line in whole_lines(path)) == before
    append_durably(path, [{"n": 3}])
    assert path.read_bytes() == before + b'{"n": 3}\n'
    path.write_bytes(before + TORN)
    cut_torn_line(path)
    assert path.read_bytes() == before


def test_advice_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"n": 1}\n' + TORN)
    assert list(advice_in(path)) == [{"n": 1}]
    append_advice(path, [{"n": 3}])
    assert list(advice_in(path)) == [{"n": 1}, {"n": 3}]
    assert list(advice_in(path, 1)) == [{"n": 3}]


@pytest.mark.parametrize("before", [b"", b'{"n": 1}\n'])
def test_what_is_not_durable_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(before)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        append_durably(path, [{"n": 2}])
    assert path.read_bytes() == before


def test_the_folder_of_a_new_durable_log_is_durable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(disk, "_durable", {})
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    path = tmp_path / "log.jsonl"
    append_durably(path, [{}])
    append_durably(path, [{}])
    assert synced[:2] == [str(path), str(tmp_path)]
    assert synced[-1] == str(path) and synced.count(str(path)) == 2
    same = [str(folder) for folder in tmp_path.parents if folder.stat().st_dev == tmp_path.stat().st_dev]
    assert set(synced[2:-1]) == set(same), "folders that name it, once"


def test_advice_that_cannot_be_written_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.mkdir()
    append_advice(path, [{"n": 1}])
    with pytest.raises(IsADirectoryError):
        append(path, [{"n": 1}])


def test_a_long_log_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for number in range(4):
        append_advice(path, [{"n": number}], 10)  # two lines are longer
    assert records(path) == [{"n": 2}, {"n": 3}]
    assert records(layout.rotated(path)) == [{"n": 0}, {"n": 1}]
