"""The power is cut at every named point: nothing is lost, nothing is there twice, and no home is unusable.

A layer below the product remembers what was forced to disk (`tests/support/faults/power.py`). One run gives the images
of all cuts; an engine is then started on each of them. Points of Spark's tasks are those of any task, and points of
targets are tried with the targets' own kills.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.deaths import subscribed
from tests.support.faults.power import Image, PowerLayer, restore
from tests.support.faults.small_world import OUTSIDE, TICKS, Rows, SmallWorld, expected, rows_in, together
from watersmeet.errors import StateError
from watersmeet.points import POINTS
from watersmeet.runtime import release
from watersmeet.runtime.emit import result_files

ELSEWHERE = {
    "window.after",
    "window.computed",
    "delivery.known",
    "order.read",
    "phase.between",
}  # no Spark, target or materialized store
OF_A_RUN = {name for name in POINTS if not name.startswith(("resident.", "target.", "recover."))} - ELSEWHERE
Passes = dict[int, list[int | None]]  # by the number of a pass through a point: seeds, None for what was synced alone
RARE = {"discard.between"}  # two passes in a run
OF_A_RECOVERY = {"recover.publish", "recover.clear"}  # nothing goes back where all is on the disk


@dataclass(frozen=True)
class Cut:
    point: str
    number: int  # of the pass through the point
    seed: int | None
    image: Image
    seen: dict[str, dict[str, Rows]]  # by query and file, what a reader had read by then

    def __str__(self) -> str:
        what = "only what was synced" if self.seed is None else f"seed {self.seed}"
        return f"{self.point}, pass {self.number}, {what}"


class Cuts:
    def __init__(self, layer: PowerLayer, passes: Passes) -> None:
        self.layer, self.passes = layer, passes
        self.reached: Counter[str] = Counter()
        self.found: dict[str, Cut] = {}  # by a digest: many moments leave the same image

    def __call__(self, point: str, about: object) -> None:
        self.reached[point] += 1
        number = self.reached[point]
        seeds = self.passes.get(number, [None, 1] if point in RARE and number == 2 else [])
        if not seeds:
            return
        seen = self._seen(self.layer.now())
        for seed in seeds:
            image = self.layer.after_cut(seed)
            digest = hashlib.sha256(repr((sorted(image.items()), sorted(map(repr, seen.items())))).encode())
            self.found.setdefault(digest.hexdigest(), Cut(point, number, seed, image, seen))

    def _seen(self, image: Image) -> dict[str, dict[str, Rows]]:
        found: dict[str, dict[str, Rows]] = {}
        for query in expected():
            folder = "out/" if query == OUTSIDE else f"home/results/{query}/"
            names = [name for name in image if name.startswith(f"{folder}0") and name.endswith(".parquet")]
            found[query] = {name.removeprefix(folder): rows_in(image[name] or b"") for name in names}
        return found


@contextmanager
def recording(world: SmallWorld, passes: Passes) -> Iterator[Cuts]:
    layer = PowerLayer(world.root)
    cuts = Cuts(layer, passes)
    with layer.active(), subscribed(cuts):
        yield cuts


def check(world: SmallWorld, cut: Cut) -> None:
    found = world.found()
    for query, rows in expected().items():
        assert together(found[query]) == rows, f"{query} after {cut}"
        new = {name: some for name, some in found[query].items() if name not in cut.seen[query]}
        assert together(cut.seen[query]) + together(new) == rows, f"a reader of {query} before and after {cut}"
    assert world.counted() == expected()["paid"].total(), f"counts after {cut}"


def survive(world: SmallWorld, cuts: Cuts) -> None:
    for cut in cuts.found.values():
        restore(world.root, cut.image)
        world.run()
        check(world, cut)


@pytest.fixture(autouse=True)
def some_results_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the next tick, where a tick has them for more queries than that."""
    monkeypatch.setattr(result_files, "MANY", 3)
    monkeypatch.setattr(release, "MANY_BYTES", 0)
    monkeypatch.setattr(release, "TICKS", 0)  # however slow ticks are


def recorded(folder: Path, passes: Passes, **options: Any) -> tuple[SmallWorld, Cuts]:
    """The cuts of a run in two lives, so that there is something to resume, on a home that was made before."""
    world = SmallWorld(folder, **options)
    world.begin()
    with recording(world, passes) as cuts:
        world.feed(range(3))
        world.run(flush=False)
        world.feed(range(3, TICKS))
        world.run()
    assert min(cuts.reached[point] for point in OF_A_RUN) >= 2, cuts.reached
    assert min(cuts.reached[point] for point in OF_A_RUN - RARE) >= min(passes), cuts.reached
    return world, cuts


def test_nothing_is_lost_or_doubled_by_a_loss_of_power(tmp_path: Path) -> None:
    world, cuts = recorded(tmp_path, {6: [1]})
    survive(world, cuts)


@pytest.mark.soak
def test_the_first_tick_of_a_home(tmp_path: Path) -> None:
    """The folders themselves are new."""
    world = SmallWorld(tmp_path)
    world.begin()
    world.feed(range(TICKS))
    with recording(world, {1: [None, 1]}) as cuts:
        world.run()
    cuts.found = {digest: cut for digest, cut in cuts.found.items() if cut.point in ("probe.after", "tick.end")}
    assert cuts.found
    survive(world, cuts)


@pytest.mark.soak
def test_the_power_fails_again_while_the_engine_recovers(tmp_path: Path) -> None:
    world, cuts = recorded(tmp_path, {6: [None, 1]})
    reached: Counter[str] = Counter()
    interesting = ("manifest.linked", "publish.before", "publish.between")
    for cut in [cut for cut in cuts.found.values() if cut.point in interesting]:
        restore(world.root, cut.image)
        with recording(world, {1: [None, 1]}) as again:
            world.run()
        check(world, cut)
        reached += again.reached
        for second in again.found.values():
            if second.point in (*OF_A_RECOVERY, "commit.before", "publish.before"):
                restore(world.root, second.image)
                world.run()
                check(world, Cut(f"{cut} and {second.point}", 1, second.seed, second.image, merged(cut, second)))
    assert reached.keys() >= OF_A_RECOVERY


def merged(first: Cut, second: Cut) -> dict[str, dict[str, Rows]]:
    return {query: {**files, **second.seen[query]} for query, files in first.seen.items()}


def test_without_syncs_a_loss_of_power_is_noticed(tmp_path: Path) -> None:
    """durability=process promises less, but it is never silently wrong. This also shows that the layer bites."""
    world, cuts = recorded(tmp_path, {6: [None]}, durability="process")
    rejected = 0
    for cut in cuts.found.values():
        restore(world.root, cut.image)
        try:
            world.run()
        except StateError as problem:
            assert "from a backup" in problem.hint, cut
            rejected += 1
        else:
            check(world, cut)
    assert rejected


@pytest.mark.soak
@pytest.mark.parametrize("few", [0, 16])
def test_many_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr("watersmeet.home.disk.FEW", few)  # 0: whole file systems only
    world, cuts = recorded(tmp_path, {number: [None, 1, 2, 3] for number in range(1, 60)})
    survive(world, cuts)
