"""What can be the folder of a home: Python and every command reject the rest before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.commands import command
from watersmeet import Engine
from watersmeet.errors import StateError
from watersmeet.home.location import home_at

URLS = (
    "s3://bucket/home",
    "s3a://b/h",
    "hdfs://host/h",
    "abfss://c@a/h",
    "file:///tmp/home",
    "file:/tmp/home",
    "S3://b",
)


@pytest.mark.parametrize("url", URLS)
def test_a_url_is_no_home(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for home in (url, Path(url)):
        with pytest.raises(StateError, match="it is a URL") as caught:
            Engine(home=home)
        assert ("name the folder: /tmp/home" in caught.value.hint) == url.startswith("file:")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "arguments",
    [
        *(("run", "p.sql"), ("check", "p.sql"), ("explain",), ("add", "CREATE QUERY q AS SELECT 1"), ("drop", "q")),
        *(("resume", "q"), ("list",), ("stats",), ("plans",), ("retry-rejected",), ("demo",)),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_takes_a_url_as_home(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.sql").write_text("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts FROM parquet '.';")
    result = command(*arguments, "--home", "s3://bucket/home")
    assert result.exit_code == 2
    assert "it is a URL" in result.output
    assert os.listdir(tmp_path) == ["p.sql"]


@pytest.mark.parametrize("home", ["/proc/x", "/proc/x/y", "/sys/x"])
def test_where_no_folder_can_be_made(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.sql").write_text("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts FROM parquet '.';")
    result = command("check", "p.sql", "--home", home)
    assert result.exit_code == 2
    assert f"no folder can be made in {home[:5].rstrip('/')}" in " ".join(result.output.replace("│", " ").split())


def test_a_file_system_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(StateError, match="the file system is read-only"):
        home_at(tmp_path / "new" / "home")
    assert home_at(tmp_path) == tmp_path, "one that exists may be read"


def test_links_files_and_names_that_cannot_be_homes(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    (tmp_path / "to_file").symlink_to(tmp_path / "file")
    (tmp_path / "real").mkdir()
    (tmp_path / "to_real").symlink_to(tmp_path / "real")
    for name, why in {
        "gone": "a link to .*nowhere, which does not exist",
        "gone/below": "",
        "loop": "does not exist",
        "file": "it is a file",
        "to_file": "it is a file",
        "file/below": "a part of the path is a file",
        "a\0b": "NUL",
        "x" * 300: "too long",
        "/".join(["x" * 200] * 25): "the path is too long",
    }.items():
        if why:
            with pytest.raises(StateError, match=why):
                Engine(home=tmp_path / name)
    assert home_at(tmp_path / "to_real" / "new") == tmp_path / "to_real" / "new"
    result = command("run", Path(__file__), "--home", tmp_path / "gone")
    assert result.exit_code == 2
    assert "which does not exist" in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "nowhere").exists()
