"""What `check` rejects of FROM a file format: no start would succeed with it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from tests.support.commands import command
from watersmeet.errors import SqlError
from watersmeet.io.sources import options_of_rows
from watersmeet.model import Source
from watersmeet.pipeline import Pipeline

STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM {} '{}' {};"


def declare(kind: str, path: object, options: str = "") -> None:
    Pipeline.read(STREAM.format(kind, path, options and f"WITH ({options})"))


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
@pytest.mark.parametrize(
    ("option", "hint"),
    [
        *(
            ("maxFilesPerTrigger = 0", "from 1"),
            ("maxfilespertrigger = abc", "from 1"),
            ("maxFilesPerTrigger = -1", ""),
        ),
        *(("maxFilesPerTrigger = 1.5", ""), ("maxFilesPerTrigger = ''", ""), ("maxBytesPerTrigger = 0", "above 0")),
        *(
            ("maxBytesPerTrigger = '1 GB'", "above 0"),
            ("latestFirst = maybe", "true"),
            ("maxFilesPerTrigger = '²'", ""),
            ("maxFilesPerTrigger = 3000000000", "2147483647"),
        ),
    ],
)
def test_options_that_no_start_could_use(kind: str, option: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(SqlError, match=r"stream s: the option \w+ cannot be") as caught:
        declare(kind, tmp_path, option)
    assert hint in caught.value.hint


def test_options_that_are_fine(tmp_path: Path) -> None:
    declare("json", tmp_path, "maxFilesPerTrigger = 10, latestFirst = true, multiLine = true")
    declare("parquet", tmp_path, "maxFilesPerTrigger = 10, maxBytesPerTrigger = 1000")  # read without Spark
    with pytest.raises(SqlError, match="cannot both be set"):
        declare("json", tmp_path, "maxFilesPerTrigger = 10, maxBytesPerTrigger = 1000")


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "orc"])
def test_a_file_is_no_stream(kind: str, tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    for path in (tmp_path / "one", tmp_path / "link", f"file://{tmp_path}/one"):
        with pytest.raises(SqlError, match="is a file, and a stream is a folder") as caught:
            declare(kind, path)
        assert str(tmp_path / "*") in caught.value.hint
    with pytest.raises(SqlError, match="needs a folder"):
        declare(kind, "")
    with pytest.raises(SqlError, match="NUL"):
        declare(kind, f"{tmp_path}/a\0b")


def test_check_reports_them_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "p.sql"
    file.write_text(STREAM.format("parquet", tmp_path / "in", "WITH (maxFilesPerTrigger = 0)"))
    result = command("check", file)
    assert result.exit_code == 1
    assert "p.sql, line 1" in result.output
    assert "maxFilesPerTrigger cannot be '0'" in result.output


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("json", {"maxFilesPerTrigger": "3", "multiLine": "true"}, {"multiLine": "true"}),
        ("csv", {"header": "true", "maxBytesPerTrigger": "1m"}, {"header": "true"}),
        (
            "kafka",
            {"bootstrap.servers": "a:1", "failOnDataLoss": "false", "format": "csv", "sep": ";"},
            {"format", "sep"},
        ),
        ("kafka", {"bootstrap.servers": "a:1", "startingOffsets": "latest", "timeoutSeconds": "9"}, {}),
        ("delta", {"startingVersion": "3", "skipChangeCommits": "true"}, {}),
    ],
)
def test_options_that_say_what_rows_are(kind: str, options: dict[str, str], expected: Collection[str]) -> None:
    """An edit of any other option is no edit of the stream: the product itself advises failOnDataLoss = false."""
    found = dict(options_of_rows(Source(kind, "x", tuple(options.items()))))
    assert set(found) == set(expected)
