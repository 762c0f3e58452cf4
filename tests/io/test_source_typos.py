"""Notes about formats and options of sources that are nearly known ones."""

from __future__ import annotations

import pytest

from watersmeet.io.sources import probable_typos
from watersmeet.model import Column, Source, Stream


def _notes(kind: str, *options: str) -> list[str]:
    source = Source(kind, "folder", tuple((name, "1") for name in options))
    return list(probable_typos(Stream("s", (Column("at", "TIMESTAMP"),), "at", source=source)))


@pytest.mark.parametrize(
    ("kind", "options", "meant"),
    [
        ("paquet", (), ["parquet"]),
        ("jason", (), ["json"]),
        ("parquet", ("maxFilesPerTriger",), ["maxFilesPerTrigger"]),
        ("csv", ("heder", "delimeter"), ["header", "delimiter"]),
        ("paquet", ("maxFilesPerTriger",), ["parquet", "maxFilesPerTrigger"]),
    ],
)
def test_what_is_nearly_known_is_noted(kind: str, options: tuple[str, ...], meant: list[str]) -> None:
    assert [note.partition("did you mean ")[2] for note in _notes(kind, *options)] == [f"{name}?" for name in meant]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("csv", ("HEADER", "sep", "nullValue")), ("iceberg", ("maxFilesPerTriger",)), ("rate", ("rowsPerSecond",))],
)
def test_what_is_known_and_what_is_different_is_not(kind: str, options: tuple[str, ...]) -> None:
    assert _notes(kind, *options) == []


@pytest.mark.parametrize("kind", ["com.example.source", "binaryFile", "mongodb", "deltasharing", "pulsar"])
def test_other_formats_of_spark_are_not(kind: str) -> None:
    assert _notes(kind) == []
