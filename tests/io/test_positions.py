"""What is remembered of the files that were taken: through torn lines and repeated batches, in few bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.counters import Reason
from watersmeet.home.manifest import Manifest
from watersmeet.io import positions, taken_files
from watersmeet.io.positions import Noted, Positions, check_positions, load_positions, place_of
from watersmeet.io.taken_files import UNKNOWN, Stamp, TakenFiles, key_of, unpacked

A, B, C, D, E = (Stamp(size, 10 * size) for size in range(5))


def known(log: Positions, stream: str, names: str) -> dict[str, Stamp]:
    return {name: stamp for name in names if (stamp := log.of(stream).stamp_of(name)) is not None}


def test_positions_survive_a_torn_line_and_being_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = load_positions(tmp_path, "0")
    log.begin({"x": {"a": A}, "y": {"b": B}}, {})
    log.begin({"x": {"c": C}}, {})
    path = layout.positions(tmp_path, "0")
    with path.open("a") as file:
        file.write('{"batch":2,"files":{"x":[["d')
    again = load_positions(tmp_path, "0")
    assert (again.batch, again.files) == (1, {"x": {"c": C}})
    assert (known(again, "x", "abcd"), known(again, "y", "abcd")) == ({"a": A, "c": C}, {"b": B})
    monkeypatch.setattr(positions, "_LONG", 1)
    again.begin({"y": {"e": E}}, {})
    assert len(path.read_text().splitlines()) == 1
    last = load_positions(tmp_path, "0")
    assert (last.batch, last.files) == (2, {"y": {"e": E}})
    assert (known(last, "x", "abcde"), known(last, "y", "abcde")) == ({"a": A, "c": C}, {"b": B, "e": E})
    last.begin({"x": {"f": A}}, {})
    assert known(load_positions(tmp_path, "0"), "x", "acf") == {"a": A, "c": C, "f": A}


def test_logs_of_earlier_versions_are_read(tmp_path: Path) -> None:
    path = layout.positions(tmp_path, "0")
    path.parent.mkdir()
    path.write_text('{"batch":7,"files":{"x":["b"]},"before":{"x":["a"]}}\n{"batch":8,"files":{"x":["c"]}}\n')
    log = load_positions(tmp_path, "0")
    assert (log.batch, log.files) == (8, {"x": {"c": UNKNOWN}})
    assert known(log, "x", "abcd") == {"a": UNKNOWN, "b": UNKNOWN, "c": UNKNOWN}


@pytest.mark.parametrize(
    "text",
    [
        '{"batch":0,"files":{}}\n{"batch":1}\n',
        '{"batch":0,"files":{}}\n{"batch":2,"files":{}}\n',
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
        log.begin({"x": {name: A}}, {})
    log.path.write_text("".join(log.path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(StateError, match=r"damaged in line 1: .*lines before it are missing"):
        load_positions(tmp_path, "0")


def test_what_could_not_be_read_is_given_back_or_set_aside(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "0")
    log.begin({"x": {"a": A, "b": B, "c": C}}, {"x": [Noted("d", D, Reason.REWRITTEN_FILE)]})
    log.reject({"x": {"a"}}, {"x": {"b"}})
    for each in (log, load_positions(tmp_path, "0")):
        assert known(each, "x", "abcd") == {"b": B, "c": C, "d": D}
        assert each.of("x").aside == {"b": B}
        assert each.notes == {"x": [Noted("d", D, Reason.REWRITTEN_FILE)]}
    log.begin({"x": {"a": E}}, {})
    log.begin({"x": {"b": E}}, {})  # taken after all
    for each in (log, load_positions(tmp_path, "0")):
        assert known(each, "x", "abcd") == {"a": E, "b": E, "c": C, "d": D}
        assert each.of("x").aside == {}


def test_a_repeated_batch_says_anew_what_could_not_be_read(tmp_path: Path) -> None:
    """The engine was killed after it wrote that down, and before it committed the tick."""
    log = load_positions(tmp_path, "0")
    log.begin({"x": {"a": A, "b": B}}, {})
    log.reject({"x": {"a"}}, {"x": {"b"}})
    again = load_positions(tmp_path, "0")
    again.repeat({"x": {"a": E, "b": B}})
    assert (known(again, "x", "ab"), again.of("x").aside) == ({"a": E, "b": B}, {})
    again.reject({}, {})  # both were complete by now
    last = load_positions(tmp_path, "0")
    assert (known(last, "x", "ab"), last.of("x").aside) == ({"a": E, "b": B}, {})


def test_a_batch_without_bad_files_is_one_line(tmp_path: Path) -> None:
    log = load_positions(tmp_path, "0")
    log.begin({"x": {"a": A}}, {})
    log.reject({"x": set()}, {})
    (found,) = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert (found["batch"], found["files"]) == (0, {"x": [["a", 0, 0]]})


def test_the_log_does_not_grow_with_the_length_of_names_and_stays_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "_LONG", 1000)
    monkeypatch.setattr(taken_files, "REMEMBERED", 500)
    log = load_positions(tmp_path, "0")
    longest = 0
    for number in range(2000):
        log.begin({"x": {f"{'long' * 30}/{number}": Stamp(1, number)}}, {})
        if number % 100 == 99:  # the last fifty are still there
            log.of("x").forget_gone(key_of(f"{'long' * 30}/{present}") for present in range(number - 49, number + 1))
        longest = max(longest, log.path.stat().st_size)
    assert longest < 3 * (600 * 32 + 1000)
    again = load_positions(tmp_path, "0").of("x")
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
    log.begin({"x": {"a": A}}, {})
    check_positions(tmp_path, Manifest())
    log.begin({"x": {"b": B}}, {})
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


@pytest.mark.parametrize("log", [layout.positions, layout.offset_log, layout.ranges, layout.checkpoint])
def test_errors_name_the_positions_of_the_group(tmp_path: Path, log: Callable[[Path, str], Path]) -> None:
    path = log(tmp_path, "3")
    path.parent.mkdir()
    path.touch()
    assert place_of(tmp_path, "3") == path
