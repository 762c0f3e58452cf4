"""Every file of a home is deleted, emptied, changed by a bit, or exchanged for that of an earlier tick, one at a time.

Either the start is rejected with a message that says what to do, and nothing is changed, or the results after it, and
after more input, are those of DuckDB. Only rows of a result file that a test itself has damaged may be missing.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.faults.power import Image, restore
from tests.support.faults.small_world import OUTSIDE, TICKS, SmallWorld, expected, rows_in, together
from watersmeet.errors import WatersmeetError
from watersmeet.home import layout

BEFORE, EARLIER = TICKS - 1, TICKS - 2  # ticks
Damage = Callable[[bytes, bytes | None], bytes | None]

DAMAGES: dict[str, Damage] = {
    "deleted": lambda content, earlier: None,
    "emptied": lambda content, earlier: b"",
    "cut": lambda content, earlier: content[: len(content) // 2],
    "a bit at the start": lambda content, earlier: flipped(content, 0.02),
    "a bit in the middle": lambda content, earlier: flipped(content, 0.5),
    "a bit near the end": lambda content, earlier: flipped(content, 0.97),
    "that of an earlier tick": lambda content, earlier: earlier,
}


def flipped(content: bytes, share: float) -> bytes:
    at = int(len(content) * share)
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :] if content else content


def kind_of(name: str) -> str:
    """Files of a kind are alike: results of another tick, or of another query in the home."""
    return re.sub(r"results/\w+/", "results/*/", re.sub(r"\d{12}-[0-9a-f]{16}-[^.]*", "*", name))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SmallWorld:
    world = SmallWorld(tmp_path_factory.mktemp("world"))
    world.begin()
    return world


@pytest.fixture(scope="module")
def images(world: SmallWorld) -> tuple[Image, Image]:
    """The home after some ticks, and one tick before."""
    found = []
    for ticks in (range(EARLIER), range(EARLIER, BEFORE)):
        world.feed(ticks)
        world.run(flush=False)
        found.append(image_of(world.root))
    world.feed(range(BEFORE, TICKS))
    return found[1], found[0]


def image_of(root: Path) -> Image:
    paths = sorted(root.rglob("*"))
    return {str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in paths}


def files(image: Image, every: bool) -> list[str]:
    """The files to damage: in folders of results the first and the last of each kind, unless `every` one."""
    by_kind: dict[str, list[str]] = {}
    for name, content in sorted(image.items()):
        if content is not None:
            by_kind.setdefault(kind_of(name), []).append(name)
    chosen: list[str] = []
    for kind, names in by_kind.items():
        is_result = kind.startswith(("home/results", "home/counts", "out/"))
        chosen += {names[0], names[-1]} if is_result and not every else names
    return chosen


def try_all(world: SmallWorld, images: tuple[Image, Image], names: list[str], damages: list[str]) -> Counter[str]:
    """The outcomes. What differs from DuckDB's answer, or is rejected without advice, fails."""
    outcomes: Counter[str] = Counter()
    for name in names:
        for damage in damages:
            content, earlier = images[0][name], images[1].get(name)
            assert content is not None
            damaged = DAMAGES[damage](content, earlier or _of_same_kind(images[1], name))
            if damaged != content:
                outcomes[outcome(world, images[0], name, damaged, f"{name}: {damage}")] += 1
    return outcomes


def _of_same_kind(image: Image, name: str) -> bytes | None:
    alike = [content for other, content in sorted(image.items()) if kind_of(other) == kind_of(name)]
    return alike[0] if alike else None


def outcome(world: SmallWorld, image: Image, name: str, damaged: bytes | None, what: str) -> str:
    restore(world.root, {other: content for other, content in image.items() if other != name})
    if damaged is not None:
        (world.root / name).write_bytes(damaged)
    before = image_of(world.root)
    try:
        world.run()
    except WatersmeetError as problem:
        # By the folder, or the file itself if it is directly in the home: each message names the home.
        place = name if Path(name).parent == Path("home") else str(Path(name).parent)
        named = place in str(problem) or "the newest manifest of" in problem.problem
        assert problem.hint and named, f"{what}: {problem}"
        lock = {"home/lock": b""}  # a rejected start may take it
        assert {**image_of(world.root), **lock} == {**before, **lock}, f"{what}: the rejected start changed something"
        return "rejected"
    check(world, image, name, what)
    return "accepted"


def check(world: SmallWorld, image: Image, name: str, what: str) -> None:
    for query, rows in expected().items():
        folder = "out" if query == OUTSIDE else f"home/results/{query}"
        found, wanted = world.found()[query], rows
        if Path(name).parent == Path(folder) and layout.tick_of(Path(name).name) is not None:
            found.pop(Path(name).name, None)
            wanted = rows - rows_in(image[name] or b"")
        assert together(found) == wanted, f"{what}: results of {query}"


def test_every_file_that_results_depend_on(world: SmallWorld, images: tuple[Image, Image]) -> None:
    """Each of them in one of the ways, in turn."""
    names = [name for name in files(images[0], every=False) if not name.startswith("home/rejected")]
    ways = itertools.cycle(["deleted", "emptied", "a bit in the middle", "that of an earlier tick"])
    assert len(names) > 20
    found: Counter[str] = Counter()
    for name, way in zip(names, ways, strict=False):
        found += try_all(world, images, [name], [way])
    assert found["rejected"] and found["accepted"]


@pytest.mark.soak
def test_every_file_in_every_way(world: SmallWorld, images: tuple[Image, Image]) -> None:
    try_all(world, images, files(images[0], every=True), list(DAMAGES))


@pytest.mark.parametrize("damage", [each for each in DAMAGES if each != "that of an earlier tick"])
@pytest.mark.parametrize(
    "name", ["home/groups.json", "home/slices.json", "home/positions/0.jsonl", "home/changes.jsonl"]
)
def test_what_no_other_file_has_is_never_guessed(
    world: SmallWorld, images: tuple[Image, Image], name: str, damage: str
) -> None:
    content = images[0][name]
    assert content is not None
    assert outcome(world, images[0], name, DAMAGES[damage](content, None), f"{name}: {damage}") == "rejected"
