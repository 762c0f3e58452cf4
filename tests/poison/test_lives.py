"""An engine that dies again and again while a query is suspended and resumed, and others come and go.

What is checked of the suspended one: no result is there twice or wrong, it stays suspended until it is resumed, and
once it is resumed it has every result whose last row arrives from then on.
"""

from __future__ import annotations

from collections import Counter
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.control.test_lives import DEATHS, DURING, JOIN, Lives
from tests.support.examples import examples
from watersmeet.home.manifest import load_newest
from watersmeet.runtime.emit import query_results

VICTIM = "victim"


class SuspendedLives(Lives):
    def __init__(self) -> None:
        self.poisoned = False
        real = query_results.QueryResults.write

        def write(results: query_results.QueryResults, query: str, *rows: object) -> None:
            if query == VICTIM and self.poisoned:
                raise ValueError("poison")
            real(results, query, *rows)  # type: ignore[arg-type]

        self.patch = mock.patch.object(query_results.QueryResults, "write", write)
        self.patch.start()
        super().__init__()
        assert self.world.run()
        self.world.engine.query(VICTIM, JOIN)
        self.clean: dict[str, int] | None = {"l": 0, "r": 0}  # rows before these need not be found; None: suspended

    def teardown(self) -> None:
        try:
            assert self.world.run()
            self.check_victim()
            super().teardown()
        finally:
            self.patch.stop()

    @property
    def suspended(self) -> bool:
        return VICTIM in load_newest(self.world.home).suspended

    def check_victim(self) -> None:
        """After a run to the end."""
        rows = self.world.rows
        pairs = Counter((a, b) for a, key in rows["l"] for b, other in rows["r"] if key == other)
        found = self.world.stored(VICTIM)
        assert not found - pairs, "each result once"
        if self.clean is None:
            assert self.suspended, "until it is resumed"
        elif self.suspended:
            self.clean = None
        else:
            due = {(a, b) for a, b in pairs if a >= self.clean["l"] or b >= self.clean["r"]}
            assert due <= set(found), f"missing {due - set(found)}"

    @rule()
    def run(self) -> None:
        super().run()
        self.check_victim()

    @rule(poisoned=st.booleans(), death=st.sampled_from(("", *DEATHS)))
    def poison(self, poisoned: bool, death: str) -> None:
        self.poisoned = poisoned
        if self.world.run(death):
            self.world.check()
            self.check_victim()

    @precondition(lambda self: self.suspended)
    @rule()
    def resume(self) -> None:
        assert self.world.run()
        self.world.check()
        self.check_victim()
        assert self.world.engine.resume(VICTIM)
        self.clean = {stream: len(rows) for stream, rows in self.world.rows.items()}

    @precondition(lambda self: self.suspended)
    @rule(during=st.sampled_from(DURING), death=st.sampled_from(DEATHS))
    def resume_in_a_tick_and_die(self, during: str, death: str) -> None:
        assert self.world.run()
        self.check_victim()
        rows = {stream: len(rows) for stream, rows in self.world.rows.items()}
        self.world.feed("l", [0])
        resumed = []

        def change() -> None:
            resumed.append(self.world.engine.resume(VICTIM))

        self.poisoned = False
        done = self.world.run(death, during, change)
        if resumed:
            # It may be active from the tick that died on: then it has the row, otherwise it need not.
            self.clean = {**rows, "l": rows["l"] + 1}
        if done:
            self.world.check()
            self.check_victim()


SuspendedLives.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=15)
test_suspended_lives_in_any_order = SuspendedLives.TestCase
del Lives  # it is run where it is from
