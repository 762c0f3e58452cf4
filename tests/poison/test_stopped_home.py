"""Queries of a home on which no engine runs can be dropped, added and resumed: the next start obeys."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from tests.support.change_log import requested
from tests.support.commands import command
from tests.support.poisoned import VICTIM, Poisoned
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import load_newest
from watersmeet.runtime.emit import query_results

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
PLAIN = f"SELECT l.id AS a, r.id AS b {JOIN}"


@pytest.fixture
def poisoned(tmp_path: Path) -> Poisoned:
    """A home whose engine has stopped, with a suspended query."""
    made = Poisoned(tmp_path)
    made.declare(PLAIN)
    made.live()
    real = query_results.QueryResults.write

    def write(self: query_results.QueryResults, query: str, *rows: object) -> None:
        if query == VICTIM:
            raise ValueError("[/poison] \x1b[2J")
        real(self, query, *rows)  # type: ignore[arg-type]

    with mock.patch.object(query_results.QueryResults, "write", write):
        made.live()
    return made


def listed(poisoned: Poisoned) -> dict[str, dict[str, object]]:
    found = json.loads(command("list", "--home", poisoned.home, "--format", "json").stdout)
    return {query["name"]: query for query in found}


def test_list_and_stats_show_the_reason(poisoned: Poisoned) -> None:
    for name in ("list", "stats"):
        shown = command(name, "--home", poisoned.home)
        assert shown.exit_code == 0, shown.output
        assert f"{VICTIM} is suspended since tick 2: [/poison] " in shown.stdout
        assert f"; when that is solved: watersmeet resume --home {poisoned.home} {VICTIM}\n" in shown.stdout
        assert name == "stats" or f"{VICTIM} (suspended) " in shown.stdout
        assert "\x1b[2J" not in shown.stdout
    suspended = listed(poisoned)[VICTIM]["suspended"]
    assert isinstance(suspended, dict) and suspended["tick"] == 2
    assert listed(poisoned)["plain"]["suspended"] is None
    stats = json.loads(command("stats", "--home", poisoned.home, "--format", "json").stdout)
    assert set(stats["suspended"]) == {VICTIM}


def test_resumed(poisoned: Poisoned) -> None:
    poisoned.live()
    tick = load_newest(poisoned.home).tick
    done = command("resume", "--home", poisoned.home, VICTIM)
    assert done.exit_code == 0, done.output
    assert f"{VICTIM} is active from tick {tick + 1}" in done.stdout
    assert f"{VICTIM}: the results of ticks 2 to {tick} are missing" in done.stdout
    assert listed(poisoned)[VICTIM]["suspended"] is None
    again = command("resume", "--home", poisoned.home, VICTIM)
    assert again.exit_code == 1
    assert "is not suspended" in again.stderr
    poisoned.live()
    assert not poisoned.suspended
    poisoned.check()
    assert sum(poisoned.results().values()) < sum(poisoned.results("plain").values())
    poisoned.live()
    assert not poisoned.suspended
    poisoned.check()


def test_dropped(poisoned: Poisoned) -> None:
    tick = load_newest(poisoned.home).tick
    done = command("drop", "--home", poisoned.home, VICTIM)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "no engine is running: the change is active from the next start on",
        f"{VICTIM} is dropped from tick {tick + 1}",
    ]
    assert VICTIM not in listed(poisoned)
    for _ in range(2):
        poisoned.live()
        assert not poisoned.suspended
        poisoned.check()
    assert VICTIM not in listed(poisoned)


def test_dropped_and_added_under_the_same_name(poisoned: Poisoned) -> None:
    assert command("drop", "--home", poisoned.home, VICTIM).exit_code == 0
    added = command("add", "--home", poisoned.home, f"CREATE QUERY {VICTIM} BACKFILL AS {PLAIN}")
    assert added.exit_code == 0, added.output
    assert set(listed(poisoned)) >= {VICTIM, "plain"}
    poisoned.live()
    assert not poisoned.suspended
    poisoned.check()
    before = poisoned.results("plain")
    poisoned.live()
    poisoned.check()
    new = poisoned.results("plain") - before
    assert new and all(poisoned.results()[row] == 1 for row in new)


def test_what_cannot_be_done_changes_nothing(poisoned: Poisoned) -> None:
    home = poisoned.home
    rejected = {
        ("drop", "plain", "nobody"): "there is no query named nobody",
        ("resume", "plain"): "query plain is not suspended",
        ("resume", "nobody"): "there is no query named nobody",
        ("add", f"CREATE QUERY plain AS {PLAIN}"): "a query named plain exists already",
        ("add", f"CREATE QUERY q AS {PLAIN.replace('l.id', 'l.nothing')}"): "nothing",
        ("add", f"CREATE QUERY q AS {PLAIN} AND near(l.id, r.id)"): "function near",
        ("add", f"CREATE QUERY q INTO csv '{home}/x' WITH (sep = ';;') AS {PLAIN}"): "the option sep",
        ("add", f"CREATE QUERY q INTO parquet '{home}/results/plain' AS {PLAIN}"): "folder of query plain",
        ("add", f"CREATE QUERY q AS {PLAIN} AND length(repeat(l.s, 1000000000)) > 5"): "repeat is asked",
    }
    for arguments, reason in rejected.items():
        result = command(*arguments, "--home", home)
        assert result.exit_code == 1, arguments
        assert reason in result.stderr, arguments
        assert "exists already" not in reason or "watersmeet drop plain" in result.stderr
    assert requested(home) == []
    with home_lock(home):  # an engine that is about to start, or another such command
        assert command("drop", "--home", home, "plain", "--timeout", "0.2").exit_code == 1
    poisoned.live()
    poisoned.check()
