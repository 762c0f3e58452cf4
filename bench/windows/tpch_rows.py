"""Rows of TPC-H's tables as streams, for the queries in bench/workloads/windowed/tpch.

Tables that describe something (regions, nations, suppliers, customers, parts) send each of their rows once in every
span of a window's length, always at the same distance from its beginning. So every window has each of them exactly
once, wherever it begins. Orders come at random times, and their items soon after them. Every stream has a row at the
end of each slide, so that a tick of that length always closes a window. Values are those of TPC-H, of which those that
queries ask for are frequent: small inputs have results for every query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (("ALGERIA", 0), ("BRAZIL", 1), ("CANADA", 1), ("CHINA", 2), ("JAPAN", 2), ("FRANCE", 3), ("GERMANY", 3))
NAMES = ("green metallic almond", "blush thistle blue", "forest green puff", "dim tan khaki")
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED COPPER", "STANDARD POLISHED TIN")
CONTAINERS = ("SM CASE", "MED BOX", "MED BAG", "LG BOX")
SEGMENTS = ("BUILDING", "AUTOMOBILE", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("AIR", "AIR REG", "MAIL", "SHIP", "TRUCK")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD")
# Orders are of days around those that queries ask for.
DAYS = tuple(date.fromisoformat(day) for day in ("1993-07-20", "1993-10-10", "1994-05-05", "1995-02-20", "1995-08-15"))
LARGE = 0.1  # of the orders have seven items of many pieces each
MOST_ITEMS = 7


@dataclass(frozen=True)
class Sizes:
    """`orders` come in the length of a window, which is `length` microseconds; other rows are as many in each."""

    length: int
    slide: int
    orders: int
    customers: int
    parts: int
    suppliers: int

    @staticmethod
    def of(length: int, slide: int, orders: int) -> Sizes:
        assert length <= slide * len(REGIONS)
        customers, parts, suppliers = (max(7, orders // share) for share in (10, 8, 100))
        return Sizes(length, slide, orders, customers=customers, parts=parts, suppliers=suppliers)


def tables(sizes: Sizes, begin: int, end: int, seed: int = 15) -> dict[str, pa.Table]:
    """The rows with event times (microseconds) from `begin` on and before `end`, ordered by them."""
    chance = np.random.default_rng(seed)
    described = {
        "region": {"r_regionkey": np.arange(len(REGIONS)), "r_name": pa.array(REGIONS)},
        "nation": {
            "n_nationkey": np.arange(len(NATIONS)),
            "n_name": pa.array([name for name, _ in NATIONS]),
            "n_regionkey": np.array([region for _, region in NATIONS]),
        },
        "supplier": _suppliers(chance, sizes),
        "customer": _customers(chance, sizes),
        "part": _parts(chance, sizes),
        "partsupp": _part_suppliers(chance, sizes),
    }
    made = {name: _repeated(pa.table(columns), chance, sizes, begin, end) for name, columns in described.items()}
    return made | _orders(chance, sizes, begin, end)


def by_tick(rows: dict[str, pa.Table], bounds: Sequence[int]) -> Iterator[dict[str, pa.Table]]:
    """The rows of each tick: those before the next bound."""
    for first, last in pairwise(bounds):
        yield {name: table.slice(*_between(table, first, last)) for name, table in rows.items()}


def _between(table: pa.Table, first: int, last: int) -> tuple[int, int]:
    times = table.column("ts").cast(pa.int64()).to_numpy()
    begin, end = (int(at) for at in np.searchsorted(times, (first, last)))
    return begin, end - begin


# Tables that describe something ------------------------------------------------------------------


def _suppliers(chance: np.random.Generator, sizes: Sizes) -> dict[str, object]:
    key = np.arange(sizes.suppliers)
    return {
        "s_suppkey": key,
        "s_name": pa.array([f"Supplier#{at:09d}" for at in key]),
        "s_nationkey": key % len(NATIONS),
        "s_acctbal": _money(chance.integers(-99_999, 999_999, len(key)), 12),
    }


def _customers(chance: np.random.Generator, sizes: Sizes) -> dict[str, object]:
    key = np.arange(sizes.customers)
    return {
        "c_custkey": key,
        "c_name": pa.array([f"Customer#{at:09d}" for at in key]),
        "c_address": pa.array([f"{at} Main Street" for at in key]),
        "c_nationkey": key % len(NATIONS),
        "c_phone": pa.array([f"{10 + at % len(NATIONS)}-{at:07d}" for at in key]),
        "c_acctbal": _money(chance.integers(-99_999, 999_999, len(key)), 12),
        "c_mktsegment": _drawn(chance, SEGMENTS, len(key)),
        "c_comment": pa.array([f"customer {at} waits quietly" for at in key]),
    }


def _parts(chance: np.random.Generator, sizes: Sizes) -> dict[str, object]:
    key = np.arange(sizes.parts)
    return {
        "p_partkey": key,
        "p_name": _drawn(chance, NAMES, len(key)),
        "p_brand": _drawn(chance, BRANDS, len(key)),
        "p_type": _drawn(chance, TYPES, len(key)),
        "p_size": pa.array(chance.integers(1, 12, len(key)), pa.int32()),
        "p_container": _drawn(chance, CONTAINERS, len(key)),
        "p_retailprice": _money(chance.integers(90_000, 200_000, len(key)), 12),
    }


def _part_suppliers(chance: np.random.Generator, sizes: Sizes) -> dict[str, object]:
    """Two suppliers of each part."""
    part = np.repeat(np.arange(sizes.parts), 2)
    return {
        "ps_partkey": part,
        "ps_suppkey": _supplier(part, np.tile([0, 1], sizes.parts), sizes),
        "ps_availqty": pa.array(chance.integers(1, 10_000, len(part)), pa.int32()),
        "ps_supplycost": _money(chance.integers(100, 100_000, len(part)), 12),
    }


def _supplier(part: Ints, which: Ints, sizes: Sizes) -> Ints:
    return (part + which * (sizes.suppliers // 2)) % sizes.suppliers


def _repeated(rows: pa.Table, chance: np.random.Generator, sizes: Sizes, begin: int, end: int) -> pa.Table:
    """Each row once in every length of a window."""
    length, ends = sizes.length, np.arange(sizes.slide - 1, sizes.length, sizes.slide)
    distance = chance.integers(0, length, rows.num_rows)
    distance[: len(ends)] = ends
    spans = range(begin // length, -(-end // length))
    times = np.concatenate([span * length + distance for span in spans])
    numbers = np.tile(np.arange(rows.num_rows), len(spans))
    inside = np.flatnonzero((times >= begin) & (times < end))
    inside = inside[np.argsort(times[inside], kind="stable")]
    return rows.take(pa.array(numbers[inside])).append_column("ts", _instants(times[inside]))


# Orders and their items --------------------------------------------------------------------------


def _orders(chance: np.random.Generator, sizes: Sizes, begin: int, end: int) -> dict[str, pa.Table]:
    count = sizes.orders * (end - begin) // sizes.length
    times = np.sort(_with_ends(chance.integers(begin, end, count), sizes, begin, end))
    days = (
        np.array([day.toordinal() for day in DAYS])[chance.integers(0, len(DAYS), count)] - date(1970, 1, 1).toordinal()
    )
    days += chance.integers(0, 60, count)
    large = chance.random(count) < LARGE
    items = np.where(large, MOST_ITEMS, chance.integers(1, MOST_ITEMS + 1, count))
    orders = pa.table(
        {
            "o_orderkey": np.arange(count),
            "o_custkey": chance.integers(0, sizes.customers, count),
            "o_orderstatus": _drawn(chance, ("F", "O", "P"), count),
            "o_totalprice": _money(chance.integers(100_000, 50_000_000, count), 12),
            "o_orderdate": _dates(days),
            "o_orderpriority": _drawn(chance, PRIORITIES, count),
            "o_shippriority": pa.array(np.zeros(count), pa.int32()),
            "o_comment": pa.array([f"order {at} is packed with care" for at in range(count)]),
            "ts": _instants(times),
        }
    )
    return {"orders": orders, "lineitem": _items(chance, sizes, times, days, large, items, begin, end)}


def _items(
    chance: np.random.Generator,
    sizes: Sizes,
    times: Ints,
    days: Ints,
    large: npt.NDArray[np.bool_],
    items: Ints,
    begin: int,
    end: int,
) -> pa.Table:
    order = np.repeat(np.arange(len(items)), items)
    count = len(order)
    number = np.arange(count) - np.repeat(np.cumsum(items) - items, items) + 1
    part = chance.integers(0, sizes.parts, count)
    quantity = np.where(large[order], chance.integers(44, 51, count), chance.integers(1, 51, count))
    shipped = days[order] + chance.integers(1, 60, count)
    committed = days[order] + chance.integers(20, 80, count)
    received = shipped + chance.integers(1, 31, count)
    when = np.minimum(times[order] + chance.integers(0, max(1, sizes.length // 20), count), end - 1)
    when = _with_ends(when, sizes, begin, end)
    rows = pa.table(
        {
            "l_orderkey": order,
            "l_partkey": part,
            "l_suppkey": _supplier(part, chance.integers(0, 2, count), sizes),
            "l_linenumber": pa.array(number, pa.int32()),
            "l_quantity": _money(quantity * 100, 6),
            "l_extendedprice": _money(quantity * chance.integers(90_000, 200_000, count), 12),
            "l_discount": _money(chance.integers(0, 11, count), 4),
            "l_tax": _money(chance.integers(0, 9, count), 4),
            "l_returnflag": _drawn(chance, ("A", "N", "R"), count),
            "l_linestatus": _drawn(chance, ("F", "O"), count),
            "l_shipdate": _dates(shipped),
            "l_commitdate": _dates(committed),
            "l_receiptdate": _dates(received),
            "l_shipinstruct": _drawn(chance, INSTRUCTIONS, count),
            "l_shipmode": _drawn(chance, MODES, count),
            "ts": _instants(when),
        }
    )
    return rows.take(pa.array(np.argsort(when, kind="stable")))


def _with_ends(times: Ints, sizes: Sizes, begin: int, end: int) -> Ints:
    """The last of each slide are moved to its end."""
    order = np.argsort(times, kind="stable")
    ends = np.arange(-(-begin // sizes.slide) * sizes.slide + sizes.slide, end + 1, sizes.slide)
    last = np.searchsorted(times[order], ends) - 1
    times[order[last]] = ends - 1
    return times


# Columns -----------------------------------------------------------------------------------------


def _drawn(chance: np.random.Generator, values: Sequence[str], count: int) -> pa.Array:
    return pa.array(values).take(pa.array(chance.integers(0, len(values), count)))


def _money(cents: Ints, digits: int) -> pa.Array:
    return pa.array([Decimal(int(value)).scaleb(-2) for value in cents], pa.decimal128(digits, 2))


def _dates(days: Ints) -> pa.Array:
    return pa.array(days, pa.int32()).cast(pa.date32())


def _instants(times: Ints) -> pa.Array:
    return pa.array(times, pa.timestamp("us", tz="UTC"))
