"""`add`, `drop`, `list`, `stats`, `explain --home`: against a `watersmeet run` in another process, and without one."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.support.commands import command
from tests.support.processes import watersmeet_run
from tests.support.two_streams import JOIN, create_both, write
from tests.support.waiting import eventually
from watersmeet.control.mailbox import Mailbox, Request
from watersmeet.errors import RunError
from watersmeet.home.lock import home_lock


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """The home of a pipeline that another process runs."""
    write(tmp_path / "l", [(1, 1, 7), (2, 2, 8)])
    write(tmp_path / "r", [(1, 10, 7)])
    script = tmp_path / "pipeline.sql"
    script.write_text(create_both(tmp_path) + f"CREATE QUERY scripted AS {JOIN};")
    home = tmp_path / "home"
    with watersmeet_run(script, "--home", home, log=tmp_path / "run.log") as run:
        eventually(lambda: any((home / "manifests").glob("*.json")) or run.has_ended)
        yield home


def test_commands_against_a_running_pipeline(running: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.sql"
    more.write_text(f"CREATE QUERY old BACKFILL INTO csv 'out' AS {JOIN};\nCREATE QUERY new AS {JOIN};\n")
    added = command("add", "--home", running, more)
    assert added.exit_code == 0, added.output
    said = re.findall(r"(\w+) is active from tick (\d+) \(\d+\.\d\d s after the request\)", added.stdout)
    assert [name for name, _ in said] == ["old", "new"]
    assert len({tick for _, tick in said}) == 1

    wrong = command("add", "--home", running, "CREATE QUERY bad AS SELECT l.id FROM nowhere [UNBOUNDED] l")
    assert wrong.exit_code == 1
    assert "line 1, column 38" in wrong.stderr
    assert "^^^^^^^" in wrong.stderr
    assert "Traceback" not in wrong.output

    def listed() -> dict[str, dict[str, object]]:
        return {
            query["name"]: query for query in json.loads(command("list", "--home", running, "--format", "json").stdout)
        }

    eventually(lambda: bool(listed()["old"]["in_force"]))
    assert set(listed()) == {"scripted", "old", "new"}
    assert listed()["old"]["since"] == int(said[0][1])
    assert listed()["old"]["results"] == 1
    assert listed()["new"]["results"] == 0
    assert listed()["scripted"]["joins"] == "l l ⋈ r r"
    assert duckdb.execute(f"FROM read_csv('{tmp_path}/out/*.csv')").fetchall() == [(1, 10)], "INTO is beside the file"
    assert "scripted" in command("list", "--home", running).stdout

    plan = command("explain", "--home", running)
    assert plan.exit_code == 0, plan.output
    assert "new" in plan.stdout
    assert json.loads(command("explain", "--home", running, "--format", "json").stdout)["stores"]
    assert "unknown format tree" in command("explain", "--home", running, "--format", "tree").stderr

    dropped = command("drop", "--home", running, "scripted", "new")
    assert re.search(r"new is dropped from tick \d+", dropped.stdout)
    assert set(listed()) == {"old"}
    both = command("drop", "--home", running, "old", "scripted")
    assert both.exit_code == 1
    assert "there is no query named scripted" in both.stderr
    assert set(listed()) == {"old"}, "all or none"

    stats = json.loads(command("stats", "--home", running, "--format", "json").stdout)
    assert stats["running"]
    assert {stream["name"]: stream["rows"] for stream in stats["streams"]} == {"l": 2, "r": 1}
    assert stats["queries"] == {"old": 1}
    assert stats["deployments"]["count"] == 4
    assert stats["deployments"]["longest"] > 0
    shown = command("stats", "--home", running).stdout
    assert "running · tick" in shown
    assert "changes activated after" in shown


def test_a_home_without_an_engine_says_so_at_once(tmp_path: Path) -> None:
    requests = (("add", f"CREATE QUERY q AS {JOIN}"), ("drop", "q"), ("resume", "q"), ("explain",))
    for arguments in (*requests, ("list",), ("stats",)):
        result = command(*arguments, "--home", tmp_path)
        assert result.exit_code == 1
        assert f"{tmp_path} is not the home of an engine" in result.stderr
    with home_lock(tmp_path):  # an engine was to start here, and has not come far
        pass
    for arguments in requests:
        result = command(*arguments, "--home", tmp_path)
        assert result.exit_code == 1
        assert f"no engine is running on the home {tmp_path}" in result.stderr
        assert "Hint: start one" in result.stderr


def test_wrong_use(tmp_path: Path) -> None:
    assert "cannot be the name" in command("drop", "--home", tmp_path, "a;b").stderr
    assert "gone.sql cannot be read: No such file" in command("add", "--home", tmp_path, tmp_path / "gone.sql").stderr
    assert "Hint: use CREATE QUERY or DROP QUERY\n" in command("add", "--home", tmp_path, "SELEC foo").stderr
    assert command("explain").exit_code == 2
    for option, value in {"--searcher": "greedy", "--what-if": "SELECT 1", "--set": "partitions=2"}.items():
        wrong = command("explain", "--home", tmp_path, option, value)
        assert (wrong.exit_code, f"Invalid value for {option}" in wrong.stderr) == (2, True), wrong.stderr
    assert command("list", "--home", tmp_path, "--format", "xml").exit_code == 2


def test_a_request_that_nobody_takes_is_withdrawn(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    mailbox.open(0.0)
    with home_lock(tmp_path), pytest.raises(RunError, match="did not reply") as caught:
        mailbox.ask(Request("change"), timeout=0.1)
    assert "nothing was changed" in caught.value.detail
    assert list(mailbox.inbox.iterdir()) == []


def test_what_an_earlier_engine_left_is_not_taken(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    mailbox.open(0.0)
    (mailbox.inbox / "1.json").write_text(json.dumps({"kind": "change", "script": "DROP QUERY q", "at": time.time()}))
    (mailbox.inbox / "2.json").write_text("not even JSON")
    assert [request.script for request in mailbox.take()] == ["DROP QUERY q"]
    (mailbox.inbox / "3.json").write_text(json.dumps({"kind": "change", "script": "DROP QUERY q"}))
    (mailbox.inbox / "4.json").write_text(json.dumps({"kind": "change", "script": "DROP QUERY p"}))
    os.utime(mailbox.inbox / "3.json", (1000, 1000))
    mailbox.open(2000.0)
    assert [request.script for request in mailbox.take()] == ["DROP QUERY p"]
