"""A folder of results keeps its columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.errors import ModelError
from watersmeet.io.sinks import check_folder, prepare_folder
from watersmeet.model import Column, Output, Sink, Stream
from watersmeet.sql.query import build_query

STREAM = Stream("s", (Column("at", "timestamp"), Column("k", "int")), "at")


def outputs(selected: str) -> tuple[Output, ...]:
    return build_query("q", f"SELECT {selected} FROM s a WINDOW 1 DAY", {"s": STREAM}).outputs


def test_other_columns_are_rejected_and_other_cases_of_names_are_not(tmp_path: Path) -> None:
    """Older versions named an output as its column was declared, not as the query wrote it."""
    prepare_folder(tmp_path, Sink(), outputs("k"))
    check_folder(tmp_path, outputs("K"))
    for other in ("k AS other", "k, at", "CAST(k AS BIGINT) AS k"):
        with pytest.raises(ModelError, match="results with other columns"):
            check_folder(tmp_path, outputs(other))


def test_damaged_columns_are_said_to_be_damaged(tmp_path: Path) -> None:
    prepare_folder(tmp_path, Sink(), outputs("k"))
    described = tmp_path / "_columns"
    whole = described.read_bytes()
    for content in (bytes([whole[0] | 0x80]) + whole[1:], whole[:-1], b"null", b"[1]", b"\xff"):
        described.write_bytes(content)
        for check in (check_folder, lambda folder, columns: prepare_folder(folder, Sink(), columns)):
            with pytest.raises(ModelError, match=r"_columns is damaged") as caught:
                check(tmp_path, outputs("k"))
            assert "delete the file" in caught.value.hint
    described.unlink()
    prepare_folder(tmp_path, Sink(), outputs("k"))
    assert described.read_bytes() == whole
