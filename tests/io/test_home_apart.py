"""A home and the input of its streams are apart, however they are spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import command
from watersmeet import Engine
from watersmeet.errors import ModelError, SqlError
from watersmeet.pipeline import Pipeline

STREAM = "CREATE STREAM {0} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM {1} '{2}';"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "input" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "input")
    (tmp_path / "a[b]*").mkdir()
    return tmp_path


def declare(folder: Path, home: str, source: str, kind: str = "parquet") -> None:
    path = source if ":" in source else f"{folder}/{source}"
    declared = Pipeline.read(STREAM.format("s", kind, path)).streams["s"]
    Pipeline(home=folder / home).with_stream(declared)


@pytest.mark.parametrize(
    ("home", "source"),
    [
        *(("input", "input"), ("input/home", "input"), ("input/deep/home", "input"), ("link/home", "input")),
        *(("input/home", "link"), ("input/home", "x/../input"), ("x/../input/home", "input"), ("input/_home", "input")),
        *(
            ("input/home", "input/*"),
            ("input/home/x", "input/*"),
            ("input/a.json", "*/*.json"),
            ("input/h", "in{put,x}"),
        ),
        ("a[b]*/home", "a[b]*"),
    ],
)
def test_a_home_inside_of_the_input(folder: Path, home: str, source: str) -> None:
    with pytest.raises(ModelError, match=r"the home .* is inside of what stream s reads") as caught:
        declare(folder, home, source)
    assert "--home" in caught.value.hint


@pytest.mark.parametrize(
    ("home", "source"),
    [
        *((".", "input"), (".", "link"), ("input", "input/deep"), ("input", "input/*/x"), ("link", "input/deep")),
        *(("home", "home/results/q"), ("home", "home/results/*/*.parquet"), ("home", "*/results/q")),
    ],
)
def test_a_home_around_the_input(folder: Path, home: str, source: str) -> None:
    with pytest.raises(ModelError, match=r"the home .* is around what stream s reads"):
        declare(folder, home, source)


def test_a_file_url_is_a_path_of_this_machine(folder: Path) -> None:
    for url in (f"file:{folder}/input", f"file://{folder}/input", f"file://{folder}/in%70ut"):
        with pytest.raises(ModelError, match="inside of what stream s reads"):
            declare(folder, "input/home", url)


@pytest.mark.parametrize(
    ("home", "source"),
    [
        *(
            ("home", "input"),
            ("input-home", "input"),
            ("home", "home-input"),
            ("home", "*.json"),
            ("input/h", "input/*.x"),
        ),
        *(("home", "*/deep"), ("a[b]c", "a[b]*"), ("input/home", "s3://bucket/input"), ("home", "data/2026-*/x")),
    ],
)
def test_folders_that_are_apart(folder: Path, home: str, source: str) -> None:
    declare(folder, home, source)


def test_a_stream_that_comes_while_the_engine_runs(folder: Path) -> None:
    engine = Engine(home=folder / "input" / "home", executor="local")
    with pytest.raises(SqlError, match="inside of what stream s reads") as caught:
        engine.sql(STREAM.format("s", "parquet", folder / "input"))
    assert caught.value.place is not None
    assert not engine.home.exists()


def test_check_and_run_say_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "p.sql").write_text(STREAM.format("s", "parquet", "input"))
    assert command("check", "p.sql", "--home", "home").exit_code == 0
    for verb in ("check", "run"):
        result = command(verb, "p.sql", "--home", "input/home")
        assert result.exit_code == 1
        assert "p.sql, line 1" in result.output
        assert "inside of what stream s reads" in result.output
    assert not (folder / "input" / "home").exists()
