"""The log of positions: batches through torn lines, repetitions and rewriting; what folders remember, in few bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.manifest import Manifest
from watersmeet.io import positions, taken_files
from watersmeet.io.folder_source import taken_files as files_of
from watersmeet.io.positions import Extents, PositionLog, check_positions, load_positions, place_of
from watersmeet.io.taken_files import UNKNOWN, Stamp, TakenFiles, key_of, unpacked

A, B, C, D, E = (Stamp(size, 10 * size) for size in range(5))


def extent(*files: tuple[str, Stamp], noted: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Of a folder."""
    return {"files": [[name, *stamp] for name, stamp in files], "noted": list(noted)}


def reloaded(home: Path) -> tuple[PositionLog, dict[str, TakenFiles]]:
    log = load_positions(home, "0")
    return log, {stream: files_of(history) for stream, history in log.histories.items()}


def known(taken: TakenFiles, names: str) -> dict[str, Stamp]:
    return {name: stamp for name in names if (stamp := taken.stamp_of(name)) is not None}


def begin(log: PositionLog, extents: Extents) -> None:
    log.begin(extents, dict)


def test_positions_survive_a_torn_line_and_being_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = load_positions(tmp_path, "0")
    begin(log, {"x": extent(("a", A)), "y": extent(("b", B))})
    begin(log, {"x": extent(("c", C))})
    path = layout.positions(tmp_path, "0")
    with path.open("a") as file:
        file.write('{"batch":2,"streams":{"x":{"files":[["d')
    again, taken = reloaded(tmp_path)
    assert (again.batch, again.extents) == (1, {"x": extent(("c", C))})
    assert (known(taken["x"], "abcd"), known(taken["y"], "abcd")) == ({"a": A, "c": C}, {"b": B})
    monkeypatch.setattr(positions, "_LONG", 1)
    again.begin({"y": extent(("e", E))}, lambda: {name: files.packed() for name, files in taken.items()})
    assert len(path.read_text().splitlines()) == 1
    last, taken = reloaded(tmp_path)
    assert (last.batch, last.extents) == (2, {"y": extent(("e", E))})
    assert (known(taken["x"], "abcde"), known(taken["y"], "abcde")) == ({"a": A, "c": C}, {"b": B, "e": E})
    begin(last, {"x": extent(("f", A))})
    assert known(reloaded(tmp_path)[1]["x"], "acf") == {"a": A, "c": C, "f": A}


def test_logs_of_folders_of_earlier_versions_are_read(tmp_path: Path) -> None:
    path = layout.positions(tmp_path, "0")
    path.parent.mkdir()
    path.write_text('{"batch":7,"files":{"x":["b"]},"before":{"x":["a"]}}\n{"batch":8,"files":{"x":["c"]}}\n')
    log, taken = reloaded(tmp_path)
    assert (log.batch, log.extents) == (8, {"x": {"files": ["c"], "noted": []}})
    assert known(taken["x"], "abcd") == {"a": UNKNOWN, "b": UNKNOWN, "c": UNKNOWN}
    path.write_text(
        '{"batch": 0, "files": {"x": [["a", 0, 0], ["b", 1, 10]]}, "noted": {"y": [["d", 3, 30, "rewritten files"]]}}\n'
        '{"batch": 0, "back": {"x": ["a"]}, "aside": {"x": ["b"]}, "now": {"x": [["b", 2, 20]]}}\n'
        '{"batch": 1, "files": {"x": [["a", 4, 40]]}}\n'
    )
    log, taken = reloaded(tmp_path)
    assert (log.batch, known(taken["x"], "abcd"), taken["x"].aside) == (1, {"a": E, "b": C}, {"b": C})
    assert known(taken["y"], "abcd") == {"d": D}
    with path.open("a") as file:  # the tick was tried twice, and the second time the file could be read
        file.write('{"batch": 1, "back": {"x": ["a"]}, "aside": {}, "now": {}}\n')
        file.write('{"batch": 1, "back": {}, "aside": {}, "now": {}}\n')
    assert known(reloaded(tmp_path)[1]["x"], "ab") == {"a": E, "b": C}


def test_logs_of_tables_of_earlier_versions_are_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "positions/0.ranges.jsonl"
    path.parent.mkdir()
    begin_, end = {"version": 1, "file": 0, "row": 0}, {"version": 1, "file": 0, "row": 3}
    lines = (
        {"batch": -1, "ranges": {"l": [begin_, begin_], "r": [begin_, begin_]}},
        {"batch": 0, "ranges": {"l": [begin_, end], "r": [begin_, begin_]}},
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = load_positions(tmp_path, "0")
    assert (log.path, log.batch, log.extents["l"]) == (path, 0, [begin_, end])
    assert (log.histories["l"].newest, log.histories["r"].newest) == ([begin_, end], [begin_, begin_])
    begin(log, {"l": [end, begin_]})
    again = load_positions(tmp_path, "0")
    assert (again.batch, again.histories["l"].newest) == (1, [end, begin_])
    path.write_text(json.dumps({"batch": 7, "ranges": {"l": [begin_, end]}, "follows": 5}) + "\n")  # it was rewritten
    assert load_positions(tmp_path, "0").histories["l"].newest == [begin_, end]


def test_logs_of_topics_of_earlier_versions_are_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "positions/0.offsets.jsonl"
    path.parent.mkdir()

    def ranges(begin: int, end: int, lost: dict[str, list[int]]) -> dict[str, Any]:
        return {"s": {"topic": "id", "ranges": {"0": [begin, end]}, "lost": lost}}

    lines = (
        {"batch": -1, "streams": ranges(4, 4, {})},
        {"batch": 0, "streams": ranges(4, 9, {})},
        {"batch": 1, "streams": ranges(9, 12, {})},
        {"batch": 1, "streams": ranges(10, 12, {"0": [9, 10]})},  # repeated, and an offset was gone
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = load_positions(tmp_path, "0")
    assert (log.path, log.batch, log.extents) == (path, 1, ranges(10, 12, {"0": [9, 10]}))
    assert [batch for batch, _ in log.histories["s"].batches] == [
        ranges(4, 4, {})["s"],
        ranges(4, 9, {})["s"],
        ranges(10, 12, {"0": [9, 10]})["s"],
    ]
    path.write_text(json.dumps({**lines[1], "batch": 9, "follows": 5}) + "\n")
    assert load_positions(tmp_path, "0").batch == 9


@pytest.mark.parametrize(
    "text",
    [
        '{"batch":0,"streams":{}}\n{"batch":1}\n',
        '{"batch":0,"files":{}}\n{"batch":2,"files":{}}\n',
        '{"batch":0,"streams":{}}\n{"batch":2,"streams":{}}\n',
        '{"batch":0,"streams":{}}\n{"batch":0,"outcome":{"x":{}}}\n',
        '{"batch":0,"files":{}}\n{"batch":1,"back":{},"aside":{},"now":{}}\n',
    ],
)
def test_a_damaged_log_is_named(tmp_path: Path, text: str) -> None:
    path = layout.positions(tmp_path, "0")
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(StateError, match=r"0.jsonl is damaged in line 2"):
        load_positions(tmp_path, "0")


def test_a_log_whose_first_lines_are_lost_is_rejected(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "0")
    for name in "abc":
        begin(log, {"x": extent((name, A))})
    log.path.write_text("".join(log.path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(StateError, match=r"damaged in line 1: .*lines before it are missing"):
        load_positions(tmp_path, "0")


def test_what_could_not_be_read_is_given_back_or_set_aside(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "0")
    begin(log, {"x": extent(("a", A), ("b", B), ("c", C), noted=(("d", *D, "rewritten files"),))})
    log.finish({"x": {"back": ["a"], "aside": ["b"]}})
    (_, taken) = reloaded(tmp_path)
    assert (known(taken["x"], "abcd"), taken["x"].aside) == ({"b": B, "c": C, "d": D}, {"b": B})
    begin(log, {"x": extent(("a", E))})
    begin(log, {"x": extent(("b", E))})  # taken after all
    (_, taken) = reloaded(tmp_path)
    assert (known(taken["x"], "abcd"), taken["x"].aside) == ({"a": E, "b": E, "c": C, "d": D}, {})


@pytest.mark.parametrize("now", [A, E])
def test_a_repeated_batch_says_anew_what_could_not_be_read(tmp_path: Path, now: Stamp) -> None:
    """The engine was killed after it wrote that down, and before it committed the tick."""
    log = load_positions(tmp_path, "0")
    begin(log, {"x": extent(("a", A), ("b", B))})
    log.finish({"x": {"back": ["a"], "aside": ["b"]}})
    again = load_positions(tmp_path, "0")
    again.repeat({"x": extent(("a", now), ("b", B))})
    again.finish({})  # both were complete by now
    (_, taken) = reloaded(tmp_path)
    assert (known(taken["x"], "ab"), taken["x"].aside) == ({"a": now, "b": B}, {})


def test_the_last_try_at_a_tick_says_what_could_not_be_read(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "0")
    begin(log, {"x": extent(("a", A)), "y": extent(("b", B))})
    log.finish({"x": {"back": ["a"], "aside": []}})
    log.finish({"y": {"back": [], "aside": ["b"]}})
    (_, taken) = reloaded(tmp_path)
    assert (known(taken["x"], "a"), taken["y"].aside) == ({"a": A}, {"b": B})
    log.finish({})
    (_, taken) = reloaded(tmp_path)
    assert (known(taken["x"], "a"), known(taken["y"], "b"), taken["y"].aside) == ({"a": A}, {"b": B}, {})


def test_a_batch_without_an_outcome_is_one_line(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "0")
    begin(log, {"x": extent(("a", A))})
    log.finish({})
    load_positions(tmp_path, "0").repeat({"x": extent(("a", A))})
    (found,) = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert (found["batch"], found["streams"]) == (0, {"x": {"files": [["a", 0, 0]], "noted": []}})


def test_the_log_does_not_grow_with_the_length_of_names_and_stays_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "_LONG", 1000)
    monkeypatch.setattr(taken_files, "REMEMBERED", 500)
    log, taken = load_positions(tmp_path, "0"), TakenFiles()
    longest = 0
    for number in range(2000):
        name, stamp = f"{'long' * 30}/{number}", Stamp(1, number)
        taken.add(name, stamp)
        log.begin({"x": extent((name, stamp))}, lambda: {"x": taken.packed()})
        if number % 100 == 99:  # the last fifty are still there
            taken.forget_gone(key_of(f"{'long' * 30}/{present}") for present in range(number - 49, number + 1))
        longest = max(longest, log.path.stat().st_size)
    assert longest < 3 * (600 * 32 + 1000)
    again = reloaded(tmp_path)[1]["x"]
    assert all(again.stamp_of(f"{'long' * 30}/{number}") == (1, number) for number in range(1500, 2000))
    assert again.stamp_of(f"{'long' * 30}/1000") is None and again.forgotten >= 1000


def test_files_are_remembered_as_they_were_packed() -> None:
    taken = TakenFiles()
    for number in range(1000):
        taken.add(f"{number}", Stamp(number, -number))
    taken.set_aside("bad", A)
    taken.give_back("7")
    again = unpacked(json.loads(json.dumps(taken.packed())))
    again.add("3", B)
    for each in (again, unpacked(json.loads(json.dumps(again.packed())))):
        assert each.stamp_of("3") == B and each.stamp_of("999") == (999, -999)
        assert each.stamp_of("7") is None and each.stamp_of("1000") is None
        assert each.aside == {"bad": A} and each.stamp_of("bad") == A


def test_files_that_are_there_are_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_files, "REMEMBERED", 10)
    taken = TakenFiles()
    for number in range(30):
        taken.add(f"{number}", Stamp(0, number))
    taken.forget_gone(key_of(f"{number}") for number in range(25))
    assert [number for number in range(30) if taken.stamp_of(f"{number}")] == list(range(25))
    assert taken.forgotten == 29


def test_a_group_that_the_state_does_not_know_has_begun_one_batch_at_most(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "1")
    begin(log, {"x": extent(("a", A))})
    check_positions(tmp_path, Manifest())
    begin(log, {"x": extent(("b", B))})
    with pytest.raises(
        StateError, match=r"positions/1\.jsonl, do not fit .*continue with batch 1, .*ends with batch -1"
    ):
        check_positions(tmp_path, Manifest())


def test_spark_does_not_repeat_the_first_batch_of_a_group(tmp_path: Path) -> None:
    done, later = layout.commits(tmp_path, "1", 0), layout.manifest(tmp_path, 1)
    for path in (done, later):
        path.parent.mkdir(parents=True)
        path.touch()
    with pytest.raises(StateError, match="Spark does not repeat batch 0"):
        check_positions(tmp_path, Manifest())
    later.unlink()
    check_positions(tmp_path, Manifest())


@pytest.mark.parametrize(
    "name", ["positions/3.jsonl", "positions/3.offsets.jsonl", "positions/3.ranges.jsonl", "checkpoints/3"]
)
def test_errors_name_the_positions_of_the_group(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.touch()
    assert place_of(tmp_path, "3") == path
