"""Which rows of windows are read once for several readers, and when they are let go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from watersmeet.model.forms import View
from watersmeet.windows.sql.shared_rows import SharedRows


class Frame:
    """What is asked of Spark."""

    def __init__(self, view: View) -> None:
        self.columns, self.is_held = view.columns, False

    def cache(self) -> Frame:
        self.is_held = True
        return self

    def unpersist(self) -> None:
        self.is_held = False


def order(start: int, text: str, *views: View) -> Any:
    return SimpleNamespace(start=start, end=start + 10, sql=SimpleNamespace(views=views, text=text))


def read(order: Any, view: View) -> Any:
    return Frame(view)


A, B = View("rows_of_a", "a", ("x",)), View("rows_of_b", "b", ("y",))


def test_rows_with_several_readers_are_held_until_the_last_one_is_done() -> None:
    first = order(0, "FROM `rows_of_a` JOIN `rows_of_b`", A, B)
    second = order(0, "FROM `rows_of_a`", View("rows_of_a", "a", ("z",)))
    shared = SharedRows([first, second])
    rows: Any = shared.of(first, A, read)
    assert rows.is_held and rows.columns == ("x", "z")
    assert shared.of(second, second.sql.views[0], read) is rows
    other: Any = shared.of(first, B, read)
    assert not other.is_held  # nobody else reads them
    shared.done(first)
    assert rows.is_held
    shared.done(second)
    assert not rows.is_held


def test_rows_that_a_text_reads_twice_are_held_and_other_windows_have_their_own() -> None:
    both = [order(start, "FROM `rows_of_a` x JOIN `rows_of_a` y", A) for start in (0, 10)]
    shared = SharedRows(both)
    rows: list[Any] = [shared.of(each, A, read) for each in both]
    assert rows[0] is not rows[1] and all(each.is_held for each in rows)
    shared.done(both[0])
    assert [each.is_held for each in rows] == [False, True]
    shared.close()
    assert not rows[1].is_held
