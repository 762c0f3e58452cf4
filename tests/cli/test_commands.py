"""What can be done without Spark: check, explain, init, help, and how errors are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet
from tests.cli.conftest import GOOD, Command, not_ignored
from watersmeet.cli.demo.show import next_commands, pipeline_text
from watersmeet.engine import Engine
from watersmeet.home import layout
from watersmeet.home.lock import home_lock
from watersmeet.model import Query
from watersmeet.session import check_java
from watersmeet.sql import build_query, parse_script


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("this command must not start Spark")

    monkeypatch.setattr("watersmeet.lifecycle.make_session", fail)


def test_version_and_help(command: Command) -> None:
    assert command("--version").stdout == f"watersmeet {watersmeet.__version__}\n"
    listed = command("--help").stdout
    for name in ("run", "check", "explain", "init", "demo", "add", "drop", "list", "stats"):
        assert name in listed
        shown = command(name, "--help")
        assert shown.exit_code == 0
        assert f"watersmeet {name}" in shown.stdout, "each help has an example"


def test_check_counts_what_it_found(command: Command, pipeline: Path) -> None:
    result = command("check", pipeline)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "ok: 2 streams, 2 queries"


def test_check_notes_folders_that_are_missing(command: Command, pipeline: Path) -> None:
    (pipeline.parent / "data" / "orders").mkdir(parents=True)
    notes = [line for line in command("check", pipeline).stdout.splitlines() if line.startswith("note:")]
    assert len(notes) == 1
    assert str(pipeline.parent / "data" / "items") in notes[0]


def test_check_notes_what_is_probably_misspelt(command: Command, pipeline: Path) -> None:
    pipeline.write_text(GOOD + "CREATE STREAM s (at TIMESTAMP) TIMESTAMP BY at FROM paquet 'data';")
    result = command("check", pipeline)
    assert result.exit_code == 0, "Spark may have a source of this name"
    assert "note: stream s: the format paquet is unknown here; did you mean parquet?" in result.stdout.splitlines()


def test_check_reports_every_error_with_its_place(command: Command, pipeline: Path) -> None:
    pipeline.write_text(GOOD.replace("o.price > 9", "o.pice > 9") + "CREATE TABLE x;\nDROP QUERY nothing;\n")
    result = command("check", pipeline)
    assert result.exit_code == 1
    assert result.stdout == ""
    heads = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert [head.partition("pipeline.sql, ")[2].partition(":")[0] for head in heads] == [
        "line 7, column 107",
        "line 8, column 1",
        "line 9, column 12",
    ]
    assert "did you mean price?" in result.stderr
    assert result.stderr.splitlines()[-1] == "3 errors"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("id BIGINT, price", "id BIGNT, price"),  # a stream that cannot be parsed
        ("BY at FROM parquet 'data/orders'", "BY at FROM parquet 'data/orders' WITH"),
        ("SELECT o.id, i.sku FROM orders [RANGE 10", "SELECT o.nr, i.sku FROM orders [RANGE 10"),  # a query
    ],
)
def test_check_leaves_out_what_follows_from_another_error(
    command: Command, pipeline: Path, good: str, bad: str
) -> None:
    assert good in GOOD
    pipeline.write_text(GOOD.replace(good, bad) + "DROP QUERY sold;")
    result = command("check", pipeline)
    assert result.stderr.splitlines()[-1] == "1 error", result.stderr


def test_check_tells_a_second_stream_of_a_name(command: Command, pipeline: Path) -> None:
    pipeline.write_text(GOOD + GOOD.split(";")[0] + ";")
    assert "a stream named orders exists already" in command("check", pipeline).stderr


@pytest.mark.parametrize("text", ["", "-- nothing\n", ";;"])
def test_check_wants_a_stream(command: Command, pipeline: Path, text: str) -> None:
    pipeline.write_text(text)
    result = command("check", pipeline)
    assert (result.exit_code, "declares no stream" in result.stderr) == (1, True)


def test_not_a_text_file(command: Command, pipeline: Path) -> None:
    pipeline.write_bytes(b"CREATE \xff\xfe")
    for name in ("check", "explain", "run"):
        result = command(name, pipeline)
        assert (result.exit_code, "not UTF-8" in result.stderr) == (1, True)


def test_a_file_may_begin_with_a_byte_order_mark(command: Command, pipeline: Path) -> None:
    text = pipeline.read_text()
    pipeline.write_text("\ufeff" + text, encoding="utf-8")
    assert command("check", pipeline).exit_code == 0
    # Positions are those of the text behind it.
    pipeline.write_text("\ufeffSELECT 1;\n" + text, encoding="utf-8")
    assert "line 1, column 1: a query in a script needs a name" in command("check", pipeline).stderr
    assert [type(each) for each in parse_script("\ufeff" + text)] == [type(each) for each in parse_script(text)]


def test_an_internal_error_in_one_query_does_not_hide_the_errors_of_others(
    command: Command, pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(name: str, *arguments: Any, **options: Any) -> Query:
        assert name != "broken", "no case for this"
        return build_query(name, *arguments, **options)

    monkeypatch.setattr("watersmeet.pipeline.build_query", fails)
    queries = [
        "CREATE QUERY before AS SELECT nothing FROM orders WINDOW 1 DAY;",
        "CREATE QUERY broken AS SELECT id FROM orders WINDOW 1 DAY;",
        "CREATE QUERY after AS SELECT nobody FROM orders WINDOW 1 DAY;",
    ]
    pipeline.write_text(pipeline.read_text() + "\n".join(queries))
    result = command("check", pipeline)
    assert result.exit_code == 1
    for found in (
        "no column nothing",
        "internal error: AssertionError: no case for this",
        "no column nobody",
        "3 errors",
    ):
        assert found in result.stderr


def test_explain_shows_the_plan(command: Command, pipeline: Path) -> None:
    one = command("explain", pipeline)
    assert one.exit_code == 0
    assert "orders arrives" in one.stdout
    assert "sold, dear" in one.stdout, "both queries are served by the same step"
    three = command("explain", pipeline, "--set", "partitions=3")
    assert "3 partitions" in three.stdout
    assert "hash-partitioned by" in three.stdout


def test_explain_points_at_the_first_error(command: Command, pipeline: Path) -> None:
    pipeline.write_text(GOOD.replace("o.price > 9", "o.pice > 9"))
    result = command("explain", pipeline)
    assert result.exit_code == 1
    assert "^^^^^^" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "no-such-file.sql"), "does not exist"),
        (("explain", "{pipeline}", "--set", "partitions"), "NAME=VALUE"),
        (("explain", "{pipeline}", "--set", "partition=3"), "did you mean partitions?"),
        (("explain", "{pipeline}", "--set", "partitions=many"), "partitions"),
        (("run", "{pipeline}", "--home", "{pipeline}"), "is a file"),
        (("demo", "--rate", "0"), "--rate"),
        (("sun", "{pipeline}"), "sun"),
    ],
)
def test_wrong_usage(command: Command, pipeline: Path, arguments: tuple[str, ...], said: str) -> None:
    result = command(*(one.format(pipeline=pipeline) for one in arguments))
    assert result.exit_code == 2
    assert said in result.stderr


def test_paths_are_relative_to_the_file(pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    pipeline.write_text(GOOD.replace("'data/items'", "'hdfs://cluster/items'"))
    engine = Engine(home=tmp_path / "home")
    engine.sql(pipeline.read_text(), "../pipeline.sql")
    sources = {stream.name: stream.source.path for stream in engine.streams if stream.source}
    assert sources == {"orders": str(tmp_path / "data" / "orders"), "items": "hdfs://cluster/items"}
    assert engine["sold"].folder == tmp_path / "out" / "sold"
    assert engine["dear"].folder == tmp_path / "home" / "results" / "dear"


def test_init_writes_a_project_that_is_right(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "shop"
    made = command("init", folder)
    assert made.exit_code == 0
    assert "watersmeet run pipeline.sql --once" in made.stdout
    assert command("check", folder / "pipeline.sql").stdout == "ok: 3 streams, 3 queries\n"
    assert (folder / "README.md").exists()


def test_init_writes_a_project_with_topics(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    made = command("init", "--kafka", folder)
    assert made.exit_code == 0 and "docker compose up" in made.output
    assert {path.name for path in folder.iterdir()} == {"pipeline.sql", "compose.yaml", "feed.py", "README.md"}
    assert command("check", folder / "pipeline.sql").exit_code == 0
    compile((folder / "feed.py").read_text(), "feed.py", "exec")


def test_init_is_the_same_every_time(command: Command, tmp_path: Path) -> None:
    for name in ("one", "two"):
        command("init", tmp_path / name)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) == 11
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_init_never_writes_over_anything(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for taken in (tmp_path, tmp_path / "mine.txt"):
        result = command("init", taken)
        assert result.exit_code == 1
        assert "Hint:" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert command("init", tmp_path / "empty").exit_code == 0


def test_demo_keeps_its_hands_off_other_folders(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = command("demo", "--home", tmp_path)
    assert result.exit_code == 1
    assert "--home" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_help_does_not_wait_for_what_only_plans_need() -> None:
    heavy = "{'numba', 'duckdb', 'pyspark', 'highspy', 'sqlglot'}"
    loaded = f"import sys, watersmeet.cli; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_commands_that_the_demo_ends_with_work_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "my demo" / "home"
    results = layout.results(home, "high_bids")
    results.mkdir(parents=True)
    pq.write_table(pa.table({"item": ["a kite"]}), results / "1.parquet")
    (tmp_path / "my demo" / "pipeline.sql").write_text(pipeline_text())
    monkeypatch.chdir(tmp_path)
    commands = [line for line in next_commands(home).splitlines()[2:] if line and not line.startswith("#")]
    assert len(commands) == 3
    done = subprocess.run(" && ".join(commands), shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "9 queries over 3 streams" in done.stdout and "a kite" in done.stdout
    assert "top_categories" in (tmp_path / "my demo" / "plan.svg").read_text()


def test_an_unexpected_error_is_short_and_logged(
    command: Command, pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("something nobody thought of")

    monkeypatch.setattr("watersmeet.lifecycle.make_session", fail)
    result = command("run", pipeline, "--home", tmp_path / "home")
    assert result.exit_code == 70
    assert "Traceback" not in result.output
    assert "something nobody thought of" in result.stderr
    log = tmp_path / "home" / "error.log"
    assert str(log) in result.stderr
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_while_starting(
    command: Command, pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr("watersmeet.lifecycle.make_session", lambda *_: os.kill(os.getpid(), number))
    with not_ignored(signal.SIGHUP), not_ignored(signal.SIGINT):
        result = command("run", pipeline, "--home", tmp_path / "home")
    assert result.exit_code == code
    assert "interrupted before the first tick; nothing was changed" in result.stderr


def test_a_home_in_use_is_rejected_before_spark_starts(command: Command, pipeline: Path, tmp_path: Path) -> None:
    with home_lock(tmp_path / "home"):
        result = command("run", pipeline, "--home", tmp_path / "home")
    assert (result.exit_code, f"is in use by process {os.getpid()}" in result.stderr) == (1, True), result.output


def test_without_java_it_says_what_to_install(
    command: Command, pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setattr("watersmeet.lifecycle.make_session", lambda *_: check_java())
    result = command("run", pipeline, "--home", tmp_path / "home")
    assert result.exit_code == 1
    assert "Java 17" in result.stderr
    assert "Hint: install it" in result.stderr
