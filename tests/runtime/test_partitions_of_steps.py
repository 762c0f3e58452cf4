"""Where the next step of a partial result happens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.home.manifest import BucketInfo
from watersmeet.options import Options
from watersmeet.plan.planner import START, make_plan
from watersmeet.runtime.probe.partial_results import PartialResults, Refs
from watersmeet.runtime.probe.partitions import OnlyPartition, SomePartition
from watersmeet.runtime.tick.orders import ProbeOrder
from watersmeet.sql import CreateStream, build_query, parse_script
from watersmeet.store.bucket import Bucket

PLACES = 3
STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere';" for name in "rs"
)


def order(buckets: dict[str, tuple[BucketInfo, ...]]) -> ProbeOrder:
    streams = {one.stream.name: one.stream for one in parse_script(STREAMS) if isinstance(one, CreateStream)}
    query = build_query("q", "SELECT r.k FROM r, s WHERE r.k = s.k WINDOW 1 SECOND", streams)
    rules = make_plan(START, tuple(streams.values()), [query], Options(partitions=PLACES)).rules
    return ProbeOrder("home", 2, "attempt", rules, 1, rules.starts, buckets, ())


def rows_of(partial: PartialResults | None) -> list[int]:
    return [] if partial is None else partial.members[0].row.tolist()


def test_a_step_happens_where_the_partners_are_stored_or_everywhere_if_nobody_knows() -> None:
    rows = pa.record_batch({"k": pa.array([*range(50), None], pa.int64())})
    tau, numbers = np.zeros(51, np.int64), np.arange(51, dtype=np.int32)
    given = order({})
    (step,) = given.starts[0].steps
    stored = Bucket(rows, tau)
    partial = PartialResults(
        (Refs(np.zeros(51, np.int32), numbers),), tau, tau, {step.sources[0]: stored.codes(step.key)}, {}
    )
    where = given.rules.store(step.store).placement.of(stored)[:50]  # the row without a key has no partners
    assert set(where.tolist()) == set(range(PLACES))

    for number in range(PLACES):
        here, elsewhere = SomePartition(given, number).divide(step, partial)
        expected = {place: np.flatnonzero(where == place).tolist() for place in range(PLACES)}
        assert rows_of(here) == expected.pop(number)
        assert {place: rows_of(part) for (place,), _, part in elsewhere} == expected

    old = BucketInfo(step.store, "b", 1, 1, 0, 0, 0, 1, 1, layout="of an earlier plan")
    here, elsewhere = SomePartition(order({step.store: (old,)}), 1).divide(step, partial)
    assert here is partial
    assert [(list(places), part) for places, _, part in elsewhere] == [([0, 2], partial)]

    here, elsewhere = OnlyPartition().divide(step, partial)
    assert here is partial
    assert not list(elsewhere)
