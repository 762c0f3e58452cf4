"""Which slice stores queries share."""

from __future__ import annotations

from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.choice import MOST_SLICES, slice_stores
from watersmeet.model import Query
from watersmeet.model.expression import ColumnRef, Expression, Literal, Operation
from watersmeet.model.forms import PartialAggregate, SliceAggregates
from watersmeet.model.sliding_window import SlidingWindow

X, K = ColumnRef("x", "bigint"), ColumnRef("k", "int")
COUNT, SUM = PartialAggregate("count", None, None, "bigint"), PartialAggregate("sum", X, None, "decimal(38,0)")


def above(number: int) -> Expression:
    return Operation(">", (X, Literal(number, "int", str(number))))


def query(
    name: str,
    grid: SlidingWindow,
    *partials: PartialAggregate,
    where: Expression | None = None,
    keys: tuple[Expression, ...] = (K,),
) -> Query:
    return Query(name, SliceAggregates("r", where, keys, partials), grid)


def test_one_store_has_the_common_slices_and_all_parts() -> None:
    found = slice_stores([query("a", SlidingWindow(12, 4), COUNT), query("b", SlidingWindow(30, 6), SUM)])
    (one,), (other,) = found.values()
    assert one.store is other.store
    assert one.store.width == 2
    assert set(one.store.parts) == {ROWS, Accumulator("sum", X), Accumulator("count", X)}
    assert one.store.filters == ()


def test_other_keys_are_another_store() -> None:
    found = slice_stores([query("a", SlidingWindow(4, 4), COUNT), query("b", SlidingWindow(4, 4), COUNT, keys=(X,))])
    assert found["a"][0].store != found["b"][0].store


def test_filters_that_differ_become_filters_of_parts() -> None:
    low, high = above(1), above(5)
    asked = [query("a", SlidingWindow(4, 4), SUM, where=low), query("b", SlidingWindow(4, 4), COUNT, where=high)]
    (one,), (other,) = slice_stores(asked).values()
    assert one.store is other.store
    assert one.store.filters == (low, high)
    assert one.present == Accumulator("count", None, low)
    assert one.partials[0].filter == low
    assert other.partials == (PartialAggregate("count", None, high, "bigint"),)


def test_one_filter_is_that_of_the_store() -> None:
    found = slice_stores(
        [query("a", SlidingWindow(4, 4), SUM, where=above(1)), query("b", SlidingWindow(8, 4), COUNT, where=above(1))]
    )
    assert found["a"][0].store.filters == (above(1),)
    assert found["a"][0].present == found["b"][0].present == ROWS


def test_without_keys_all_rows_are_seen_because_a_window_of_them_has_a_result() -> None:
    (reading,) = slice_stores([query("a", SlidingWindow(4, 4), COUNT, where=above(1), keys=())])["a"]
    assert reading.store.filters == ()
    assert reading.present == ROWS
    assert reading.partials == (PartialAggregate("count", None, above(1), "bigint"),)


def test_a_store_has_at_most_64_filters() -> None:
    asked = [query(f"q{number}", SlidingWindow(4, 4), COUNT, where=above(number)) for number in range(100)]
    stores = {reading.store for (reading,) in slice_stores(asked).values()}
    assert sorted(len(store.filters) for store in stores) == [36, 64]


def test_grids_without_common_slices_worth_it_have_stores_of_their_own() -> None:
    day = 86_400_000_000
    found = slice_stores(
        [query("a", SlidingWindow(day, day), COUNT), query("b", SlidingWindow(7_000_003, 1_000_001), COUNT)]
    )
    assert {reading.store.width for (reading,) in found.values()} == {day, 1}
    assert day > MOST_SLICES


def test_the_choice_does_not_depend_on_the_order_of_queries() -> None:
    asked = [
        query(f"q{number}", SlidingWindow(2 * number, number), COUNT, where=above(number % 3)) for number in range(1, 9)
    ]
    there, back = slice_stores(asked), slice_stores(asked[::-1])
    assert {name: each[0].store.name for name, each in there.items()} == {
        name: each[0].store.name for name, each in back.items()
    }
