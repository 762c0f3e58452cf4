"""Orders that name their rules instead of having them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.ruleset import Ruleset
from watersmeet.planning import make_plan
from watersmeet.runtime.orders import ProbeOrder
from watersmeet.runtime.sending import RulesFile, pack, unpack
from watersmeet.sql import CreateStream, build_query, parse_script

STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM parquet 'nowhere';" for name in "rs"
)


def rules(queries: int) -> Ruleset:
    streams = {one.stream.name: one.stream for one in parse_script(STREAMS) if isinstance(one, CreateStream)}
    texts = [f"SELECT r.k FROM r, s WHERE r.k = s.k AND r.k > {at} WINDOW 1 SECOND" for at in range(queries)]
    built = [build_query(f"q{at}", text, streams) for at, text in enumerate(texts)]
    return make_plan(tuple(streams.values()), built, Options(), Statistics()).rules


def order(given: Ruleset) -> ProbeOrder:
    return ProbeOrder("home", 3, "attempt", given, 1, given.starts[1:], {}, (), ())


def test_an_order_comes_out_as_it_went_in_and_is_small(tmp_path: Path) -> None:
    sizes = []
    for queries in (2, 40):
        sent, file = order(rules(queries)), RulesFile(tmp_path, "run")
        file.write(sent.rules)
        packed = pack(sent, file)
        sizes.append(len(packed))
        first, second = unpack(packed), unpack(packed)
        assert first == sent
        assert first.starts[0] is first.rules.starts[1]
        assert first.rules is second.rules, "a worker reads it once"
    assert sizes[0] == sizes[1]


def test_there_is_one_file_for_each_run_and_a_late_one_of_another_run_is_not_read(tmp_path: Path) -> None:
    ours, theirs = RulesFile(tmp_path, "ours"), RulesFile(tmp_path, "theirs")
    old, new = rules(1), rules(2)
    theirs.write(replace(new, partitions=7))  # a dead engine's; the version is the same, the content is not
    ours.write(old)
    ours.write(new)
    assert [path.stem for path in (tmp_path / "orders" / "ours").iterdir()] == [new.version]
    assert unpack(pack(order(new), ours)).rules == new
    written = ours.path
    assert written is not None
    written.write_bytes(pickle.dumps(old))
    ours.write(new)
    assert pickle.loads(written.read_bytes()) == old, "a plan that stays is not written again"
    ours.remove()
    assert not list((tmp_path / "orders" / "ours").iterdir())
