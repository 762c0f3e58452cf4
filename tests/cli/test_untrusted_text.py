"""What data and names say to a terminal is shown, not obeyed; a log of errors is a file that nobody else has chosen."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
import typer

from tests.support.commands import command
from watersmeet.cli.errors import reporting, show_error
from watersmeet.errors import WatersmeetError
from watersmeet.home import layout
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import Manifest, Suspension, commit, load_newest
from watersmeet.model import Query, Sink
from watersmeet.runtime.delivery import Deliveries
from watersmeet.terminal import json_text, visible, visible_lines

ESCAPE, TITLE = "\x1b[2J", "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ⋈ ü 漢", "plain ⋈ ü 漢"),
        (ESCAPE, "\\x1b[2J"),
        (TITLE, "\\x1b]0;owned\\x07"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("a\rb\x00\x7f", "a\\rb\\x00\\x7f"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("abc\u202edef", "abc\\u202edef"),
    ],
)
def test_text_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_text_of_several_lines_keeps_them() -> None:
    assert visible_lines(f"a\n\tb{ESCAPE}") == "a\n\tb\\x1b[2J"


def test_json_has_no_character_that_a_terminal_obeys_and_is_the_same_value() -> None:
    value = {"é": [f"a\x9b31mb\x7f{ESCAPE}\u202e\n", "日本"]}
    shown = json_text(value)
    assert json.loads(shown) == value
    assert "\\u009b31mb\\u007f" in shown and "\\u202e" in shown and "é" in shown and "日本" in shown
    assert visible_lines(shown) == shown


@pytest.mark.parametrize("command_name", ["list", "stats"])
def test_commands_print_such_json(tmp_path: Path, command_name: str) -> None:
    with home_lock(tmp_path):
        pass
    suspended = Suspension(1, "no \x9b31m and no \x85", "1")
    commit(tmp_path, Manifest(1, queries={"q": 1}, suspended={"q": suspended}))
    described = {"joins": "a", "sql": "SELECT '\x9b'", "folder": "f", "backfill": False}
    (tmp_path / layout.QUERIES).write_text(json.dumps({"q": described}, ensure_ascii=False))
    said = command(command_name, "--home", tmp_path, "--format", "json")
    assert said.exit_code == 0, said.output
    assert "\\u009b31m" in said.stdout and visible_lines(said.stdout) == said.stdout


def test_an_error_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(WatersmeetError(f"no column {ESCAPE}", detail=TITLE))
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\x07" not in said and "\\x1b[2J" in said


def test_the_console_shows_values_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = ["[/x]", "[bold]x", ESCAPE, TITLE, "[link=file:///etc]y[/link]"]
    rows = pa.record_batch({"v": values})
    future = SimpleNamespace(result=lambda: [(rows, len(values))])
    executor = cast(Any, SimpleNamespace(submit=lambda order: future))
    query = cast(Query, SimpleNamespace(name="q", sink=Sink("console"), outputs=[SimpleNamespace(name="[/v]")]))
    deliveries = Deliveries(tmp_path)
    deliveries.connect(executor, cast(Any, None), dict, cast(Any, None), lambda: load_newest(tmp_path))
    deliveries._print(query, ["file"], 1)
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said
    for shown in ("[/x]", "[bold]x", "\\x1b[2J", "\\x1b]0;owned\\x07", "[link=file:///etc]y[/link]", "[/v]"):
        assert shown in said


def fail(home: Path | None) -> None:
    with pytest.raises(typer.Exit) as end, reporting(home):
        raise RuntimeError(f"surprise {ESCAPE}")
    assert end.value.exit_code == 70


def test_the_log_of_an_error_is_a_new_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "watersmeet-error.log").symlink_to(victim)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    fail(None)
    fail(None)
    logs = [path for path in shared.iterdir() if not path.is_symlink()]
    assert len(logs) == 2 and victim.read_text() == "mine"
    said = capsys.readouterr().err
    for log in logs:
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert str(log) in said and "RuntimeError: surprise" in log.read_text()
    assert "\x1b" not in said


def test_the_log_in_a_home_does_not_follow_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, home, shared = tmp_path / "victim", tmp_path / "home", tmp_path / "shared"
    for folder in (home, shared):
        folder.mkdir()
    victim.write_text("mine")
    (home / "error.log").symlink_to(victim)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    fail(home)
    assert victim.read_text() == "mine" and len(list(shared.iterdir())) == 1
    (home / "error.log").unlink()
    fail(home)
    assert stat.S_IMODE((home / "error.log").stat().st_mode) == 0o600


def test_a_home_of_another_user_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end, reporting(None):
        raise PermissionError(13, os.strerror(13), str(tmp_path))
    said = capsys.readouterr().err
    assert end.value.exit_code == 1 and str(tmp_path) in said and "run this as that user" in said
