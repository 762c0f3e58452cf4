"""Counters in the manifest: typed here, "kind/name" in the file, as every version wrote them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from pathlib import Path

from watersmeet.home import layout
from watersmeet.home.counters import Counters, Reason
from watersmeet.home.manifest import Manifest, commit, load_newest

NAMED = {
    "rows/l": 100,
    "rows/idle": 0,
    "no event time/l": 4,
    "late/r": 3,
    "unreadable files/l": 1,
    "failed_filters/l": 2,
    "unwanted/l": 9,
    "results/q": 1237,
    "failed_values/q": 7,
    "step_in/1": 45,
    "step_out/1": 0,
    "hash_collisions": 5,
}
TOTALS = Counters(
    rows=Counter(l=100, idle=0),
    set_aside=Counter(
        {
            (Reason.NO_TIME, "l"): 4,
            (Reason.LATE, "r"): 3,
            (Reason.UNREADABLE_FILE, "l"): 1,
            (Reason.FAILED_FILTER, "l"): 2,
        }
    ),
    unwanted=Counter(l=9),
    results=Counter(q=1237),
    failed_values=Counter(q=7),
    step_in=Counter({1: 45}),
    step_out=Counter({1: 0}),
    hash_collisions=5,
)


def test_the_file_keeps_its_format(tmp_path: Path) -> None:
    commit(tmp_path, Manifest(1, totals=TOTALS))
    _, body = layout.manifest(tmp_path, 1).read_text().split("\n")
    assert json.loads(body)["totals"] == NAMED
    assert load_newest(tmp_path).totals == TOTALS


def test_a_step_that_ran_and_found_nothing_is_told_from_one_that_did_not_run(tmp_path: Path) -> None:
    commit(tmp_path, Manifest(1, totals=TOTALS))
    assert list(load_newest(tmp_path).totals.step_out) == [1]


def test_counters_of_other_versions_are_left_out(tmp_path: Path) -> None:
    commit(tmp_path, Manifest(1, totals=TOTALS))
    path = layout.manifest(tmp_path, 1)
    head, body = path.read_text().split("\n")
    raw = json.loads(body)
    raw["totals"] = {**NAMED, "lightyears/q": 3, "parsecs": 1}
    changed = json.dumps(raw)
    path.write_text(json.dumps({**json.loads(head), "checksum": zlib.crc32(changed.encode())}) + "\n" + changed)
    assert load_newest(tmp_path).totals == TOTALS


def test_counters_add_up() -> None:
    totals = Counters()
    totals.add(TOTALS)
    totals.add(TOTALS)
    assert totals.rows == {"l": 200, "idle": 0}
    assert totals.set_aside[Reason.LATE, "r"] == 6
    assert (totals.results["q"], totals.failed_values["q"], totals.unwanted["l"]) == (2474, 14, 18)
    assert (totals.step_in, totals.step_out, totals.hash_collisions) == ({1: 90}, {1: 0}, 10)
    totals.forget_steps()
    assert not totals.step_in
    assert TOTALS.step_in == {1: 45}
