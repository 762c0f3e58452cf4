"""Kills while a query is suspended, resumed and suspended again, and another comes and goes, through many restarts.

`./run test-faults`. The healthy queries have the oracle's answers at the end. The two others select what the healthy
query `paid` does, so that their files of a tick can be compared with its files of that tick: whenever they are active
they have the same, and while one is suspended or dropped it has nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.faults.program import GUEST, TWIN, TWIN_OF, lose_folder, repair_folder
from tests.support.faults.victim import Victim, check_results, check_state, clean_start, expected_of
from watersmeet.control.change_log import read_entries
from watersmeet.home.layout import tick_of
from watersmeet.home.manifest import load_newest

pytestmark = pytest.mark.soak

Rows = Counter[tuple[object, ...]]


def by_tick(folder: Path) -> dict[int, Rows]:
    found: dict[int, Rows] = {}
    for path in sorted(folder.glob("0*.parquet")):
        tick = tick_of(path.name)
        assert tick is not None
        found.setdefault(tick, Counter()).update(tuple(row.values()) for row in pq.read_table(path).to_pylist())
    return found


class Story:
    """What has happened to the queries of a home by the ticks that are committed."""

    def __init__(self, victim: Victim) -> None:
        self.victim, self.home = victim, victim.home
        self.silent: set[int] = set()  # ticks in which the twin must have nothing
        self.either: set[int] = set()  # that were running when it was resumed: their repetition obeys

    @property
    def newest(self) -> int:
        return load_newest(self.home).tick

    def check_suspended(self) -> None:
        suspension = load_newest(self.home).suspended[TWIN]
        self.silent |= set(range(suspension.tick, self.newest + 1))

    def check_resumed(self, committed: int) -> None:
        """It was resumed when so many ticks were committed."""
        entry = [entry for entry in read_entries(self.home) if entry.kind == "resume"][-1]
        assert committed < entry.tick
        self.silent |= set(range(max(self.silent), committed + 1))
        self.silent = {tick for tick in self.silent if tick <= committed}
        self.either |= set(range(committed + 1, entry.tick))

    def check_twin(self, folder: Path) -> None:
        twin, model = by_tick(folder), by_tick(self.home / "results" / TWIN_OF)
        for tick in range(1, self.newest + 1):
            wanted = Counter() if tick in self.silent else model.get(tick, Counter())
            found = twin.get(tick, Counter())
            assert found == wanted or (tick in self.either and not found), f"tick {tick}"
        assert self.silent and any(model.get(tick) for tick in self.silent), "some results were missed"
        assert any(model.get(tick) for tick in range(max(self.silent) + 2, self.newest + 1)), "and some came after"

    def check_guest(self) -> None:
        """Its lives by the log: from its second tick on it has what its model has, and no result twice."""
        guest, model = by_tick(self.home / "results" / GUEST), by_tick(self.home / "results" / TWIN_OF)
        lives = [entry for entry in read_entries(self.home) if entry.name == GUEST]
        assert [entry.kind for entry in lives] == ["add", "drop", "add"]
        ends = [*(entry.tick for entry in lives[1:]), self.newest + 1]
        everything = expected_of(self.victim.ticks)[TWIN_OF]
        for number, (entry, end) in enumerate(zip(lives, ends, strict=True)):
            if entry.kind == "drop":
                assert not any(entry.tick <= tick < lives[number + 1].tick - 1 for tick in guest)
                continue
            # A tick that was running at the request and died is repeated with the change.
            mine = {tick: rows for tick, rows in guest.items() if entry.tick - 1 <= tick < end}
            assert not sum(mine.values(), Counter()) - everything, "each result once, and none that is wrong"
            for tick in range(entry.tick + 1, end - 1):
                assert mine.get(tick, Counter()) == model.get(tick, Counter()), f"tick {tick}"


def test_kills_while_queries_are_suspended(victim: Callable[..., Victim]) -> None:
    home = victim(ticks=40, options=["--twin"])
    folder = home.folder / TWIN
    story = Story(home)
    # A task dies, then the engine after a commit; all results of that are where they belong when the folder is lost.
    home.killed_at("results.write:8", "tick.end:9")

    # The folder is lost while no engine runs; the query is suspended by the first tick of the next one, which dies
    # right after that, and stays so.
    lose_folder(folder)
    home.killed_at("manifest.linked:1")
    story.check_suspended()
    home.killed_at("results.write:3", "probe.after:3")
    story.check_suspended()

    # It is resumed in a tick that dies before the commit.
    repair_folder(folder)
    committed = story.newest + 1
    home.killed_at("probe.after:2", more=["--do", "tick.begin:2:resume"])
    story.check_suspended()
    story.check_resumed(committed)
    home.killed_at("publish.before:3")
    assert not load_newest(home.home).suspended

    # Another query comes in a tick that dies; in the next life the folder is lost while ticks run, and a task dies.
    home.killed_at("manifest.draft:3", more=["--do", "tick.begin:3:add"])
    assert GUEST not in load_newest(home.home).queries
    home.killed_at("results.write:10", "tick.end:5", more=["--do", "tick.begin:3:lose"])
    story.check_suspended()

    # The folder is back, but nobody resumes: a whole tree dies. Then it is resumed while the guest is dropped.
    repair_folder(folder)
    home.killed_at("results.write:6:tree")
    story.check_suspended()
    committed = story.newest + 1
    home.killed_at("manifest.linked:4", more=["--do", "tick.begin:2:resume", "--do", "tick.begin:2:drop"])
    story.check_resumed(committed)

    # The guest comes again under its name, and the rest is quiet but for one task.
    home.finish("results.write:5", more=["--do", "tick.begin:2:add"])
    assert not load_newest(home.home).suspended
    check_results(home)
    story.check_twin(folder)
    story.check_guest()
    clean_start(home)
    check_state(home)
