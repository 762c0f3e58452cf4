"""One Stats for the API and the commands: what they show of a home that is made up here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.support.parquet_input import write_file
from tests.support.waiting import eventually
from watersmeet import Engine
from watersmeet.cli.app import app
from watersmeet.cli.dashboard import Picture
from watersmeet.cli.tables import bytes_text
from watersmeet.control.change_log import LoggedChange, append_entries
from watersmeet.control.description import describe, write_description
from watersmeet.control.stats import stats_of_home
from watersmeet.home import layout
from watersmeet.home.counters import Counters, Reason
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import BucketInfo, Manifest, commit
from watersmeet.home.tick_log import TickTimes, log_tick
from watersmeet.runtime.udf import predicate_calls
from watersmeet.runtime.udf.predicate_calls import Calls

STREAM = "CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts FROM parquet '{1}';"
JOIN = "SELECT a.id AS a FROM l [UNBOUNDED] a, r [UNBOUNDED] b WHERE a.k = b.k"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(home=tmp_path / "home", executor="local")
    for name in ("l", "r", "files"):
        (tmp_path / name).mkdir()
        engine.sql(STREAM.format(name, tmp_path / name))
    engine.query("q", JOIN)
    engine.query("added", JOIN)
    home = engine.home
    with home_lock(home):
        pass
    every = {(reason, "l"): number for number, reason in enumerate(Reason, 1)}
    totals = Counters(
        rows=Counter(l=100, r=50),
        set_aside=Counter({**every, (Reason.UNREADABLE_FILE, "files"): 8}),
        results=Counter(q=12),
        failed_values=Counter(q=7),
    )
    bucket = BucketInfo("l", "state/l/x.bucket", 90, 1234, 0, 0, 5, 1, 2)
    commit(home, Manifest(2, newest={"l": 5}, buckets=(bucket,), totals=totals, plan="v", queries={"q": 1}))
    write_description(home, describe(home, [handle.query for handle in engine.queries]))
    layout.rejected(home, "files").mkdir(parents=True)
    append_entries(home, [LoggedChange(1.0, 3, "add", "added", 0.25, JOIN)])
    log_tick(home, TickTimes(2, 10, 5, 0.2, 0.1, 0.01, 0.0))
    Calls(complaints={"near": "ValueError: no idea"}).tell(home, 2)
    return engine


def test_the_command_shows_every_count_that_the_api_does(engine: Engine) -> None:
    mine, outside = engine.stats(), stats_of_home(engine.home)
    assert {stream.name: stream for stream in mine.streams} == {stream.name: stream for stream in outside.streams}
    assert (mine.stores, mine.queries, mine.predicates) == (outside.stores, outside.queries, outside.predicates)
    assert (mine.running, mine.tick, mine.deployments) == (outside.running, outside.tick, outside.deployments)
    shown = CliRunner().invoke(app, ["stats", "--home", str(engine.home)], env={"COLUMNS": "300"}).stdout
    for number, reason in enumerate(Reason, 1):
        assert f"{number} {reason.replace('_', ' ')}" in shown
    assert "8 unreadable files" in shown, "of a stream without a row"
    assert f"files: what was set aside is in {engine.home}/rejected/files\n" in shown
    assert "l: what" not in shown, "nothing is there"
    assert ["q", "12", "7"] in [line.split() for line in shown.splitlines()]
    assert "predicate near: ValueError: no idea (tick 2)" in shown


def test_stats_as_json_keep_their_keys(engine: Engine) -> None:
    told = json.loads(CliRunner().invoke(app, ["stats", "--home", str(engine.home), "--format", "json"]).stdout)
    left = next(stream for stream in told.pop("streams") if stream["name"] == "l")
    assert left == {
        "name": "l",
        "rows": 100,
        "late": 4,
        "newest": 5,
        "set_aside": {reason.value: number for number, reason in enumerate(Reason, 1)},
    }
    assert told == {
        "running": False,
        "suspended": {},
        "tick": 2,
        "plan": "v",
        "stores": [{"name": "l", "rows": 90, "bytes": 1234, "buckets": 1}],
        "state_bytes": 1234,
        "memory_bytes": 0,
        "queries": {"q": 12, "added": 0},
        "failed_values": {"q": 7},
        "outbox": {},
        "predicates": {"near": "ValueError: no idea (tick 2)"},
        "ticks": {
            "count": 1,
            "last": pytest.approx(0.31),
            "median": pytest.approx(0.31),
            "longest": pytest.approx(0.31),
        },
        "deployments": {"count": 1, "last": 0.25, "median": 0.25, "longest": 0.25},
    }


def test_the_list_tells_what_is_in_force(engine: Engine) -> None:
    told = json.loads(CliRunner().invoke(app, ["list", "--home", str(engine.home), "--format", "json"]).stdout)
    assert [(one["name"], one["since"], one["in_force"], one["latency"]) for one in told] == [
        ("q", 1, True, None),
        ("added", 3, False, 0.25),
    ]
    assert told[0]["joins"] == "l a ⋈ r b"
    assert told[0]["folder"] == str(engine.home / "results" / "q")


def test_logs_are_read_again_only_when_they_have_changed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.stats()
    read: list[Path] = []
    content_of = Path.read_bytes

    def counting(path: Path) -> bytes:
        read.append(path)
        return content_of(path)

    monkeypatch.setattr(Path, "read_bytes", counting)
    before = engine.stats()
    assert [path.name for path in read if path.suffix == ".jsonl"] == []
    append_entries(engine.home, [LoggedChange(2.0, 4, "drop", "other", 0.5)])
    Calls(complaints={"far": "KeyError: 1"}).tell(engine.home, 3)
    after = engine.stats()
    assert (len(after.deployments), len(after.predicates)) == (len(before.deployments) + 1, len(before.predicates) + 1)


def test_failures_of_predicates_stay_known_in_a_log_of_limited_length(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicate_calls, "_LONGEST_LOG", 1000)
    for tick in range(100):
        Calls(complaints={"near": f"ValueError: {tick}"}).tell(engine.home, tick)
    assert "ValueError: 99" in engine.complaints()["near"]
    assert sum(path.stat().st_size for path in engine.home.glob("predicates.*")) < 3000


def test_a_damaged_list_of_queries_is_said_to_be_damaged(engine: Engine) -> None:
    for content in (b"", b"{", b"\xff", b"[]", b'{"q": {"sql": 1}}', b'{"q": 1}'):
        (engine.home / "queries.json").write_bytes(content)
        shown = CliRunner().invoke(app, ["list", "--home", str(engine.home)])
        assert shown.exit_code == 1, shown.output
        assert "queries.json is damaged" in shown.output


def test_what_windows_keep_is_counted_on_disk_and_in_memory(tmp_path: Path) -> None:
    rows = [{"ts": 1_700_000_000_000_000 + 100_000 * at, "k": at % 500} for at in range(2000)]
    times = pa.array([row["ts"] for row in rows], pa.timestamp("us", "UTC"))
    write_file(tmp_path / "r", 0, pa.table({"ts": times, "k": pa.array([row["k"] for row in rows], pa.int64())}))
    engine = Engine(home=tmp_path / "home", executor="local")
    engine.sql(f"CREATE STREAM r (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM parquet '{tmp_path / 'r'}'")
    window = "[RANGE 20 SECONDS SLIDE 1 SECOND]"
    engine.query("busy", f"SELECT k, count(*) AS n FROM r {window} GROUP BY k")
    with engine:
        engine.start()
        eventually(lambda: engine.stats().memory_bytes)
        stats = engine.stats()
        (store,) = stats.stores
        assert store.name.startswith("slices") and stats.state_bytes == store.bytes > 0
        assert stats_of_home(engine.home).memory_bytes == stats.memory_bytes > 500 * 8
        assert stats.as_json()["memory_bytes"] == stats.memory_bytes
        shown = Picture(stats, stats, 1.0, {}).state_text
        assert shown == f"state {bytes_text(store.bytes)} + {bytes_text(stats.memory_bytes)} in memory"
        told = CliRunner().invoke(app, ["stats", "--home", str(engine.home)]).stdout
        assert shown in told and store.name in told
        engine.drop("busy")
        engine.settle(0)
        eventually(lambda: not engine.stats().memory_bytes)
    assert stats_of_home(engine.home).memory_bytes == 0
