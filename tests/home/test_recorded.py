"""Homes that an earlier version left are resumed: what is open there ends as if nothing had happened."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.home.recorded_project import RECORDED, TICKS, check, feed, live
from watersmeet.home.manifest import load_newest

STORES = {
    *("r", "t", "u", "r_t_ee37cd14"),
    *("slices r 073b2889e584fcf3", "slices u 1dd71250824b0983", "slices results 7da60da958bed5fa e8e6beb12dcc09c1"),
    *(f"slices t {digest}" for digest in ("8b683d68ed647687", "be1f20ba71275601", "d8ee7b8fbdd7748a")),
}


@pytest.mark.parametrize("partitions", [1, 3, 2])
@pytest.mark.parametrize("recorded", sorted(path.name for path in RECORDED.glob("*.tar.gz")))
def test_a_recorded_home_is_resumed(tmp_path: Path, recorded: str, partitions: int) -> None:
    with tarfile.open(RECORDED / recorded) as archive:
        archive.extractall(tmp_path, filter="data")
    project = tmp_path / recorded.removesuffix(".tar.gz")
    assert {bucket.store for bucket in load_newest(project / "home").buckets} == STORES
    for tick in range(TICKS, TICKS + 3):
        feed(project, tick)
        live(project, partitions, flush=tick == TICKS + 2)
        # A store under another name would begin empty, beside what was kept.
        assert {bucket.store for bucket in load_newest(project / "home").buckets} <= STORES
    check(project)


def test_all_slices_are_divided_among_the_partitions(tmp_path: Path) -> None:
    """Also those of the results of a join: otherwise one task would answer for all."""
    feed(tmp_path, 0)
    live(tmp_path, 3)
    buckets = [bucket for bucket in load_newest(tmp_path / "home").buckets if bucket.store.startswith("slices")]
    assert any(bucket.store.startswith("slices results") for bucket in buckets)
    assert {bucket.layout for bucket in buckets} == {"all keys % 3"}
