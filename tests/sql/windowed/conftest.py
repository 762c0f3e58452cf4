"""The streams that tests of windowed queries read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.declarations import streams_of
from watersmeet.model import Query, Stream
from watersmeet.sql import build_query

SCRIPT = """
CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, amount DECIMAL(12, 2), share DECIMAL(4, 2),
  kind STRING, d DOUBLE, f FLOAT, n INT, small SMALLINT, ok BOOLEAN, day DATE, at TIMESTAMP, ntz TIMESTAMP_NTZ,
  arr ARRAY<INT>, m MAP<STRING, INT>, st STRUCT<a: INT, b: STRING>, long DECIMAL(38, 10))
  TIMESTAMP BY at FROM parquet 'bids';
CREATE STREAM auctions (id BIGINT, category INT, seller BIGINT, name STRING, fee DECIMAL(10, 4), weight DOUBLE,
  at TIMESTAMP) TIMESTAMP BY at FROM parquet 'auctions';
CREATE STREAM persons (id BIGINT, name STRING, city STRING, at TIMESTAMP_NTZ) TIMESTAMP BY at FROM parquet 'persons';
"""
Build = Callable[[str], Query]


@pytest.fixture(scope="session")
def streams() -> dict[str, Stream]:
    return streams_of(SCRIPT)


@pytest.fixture(scope="session")
def query(streams: dict[str, Stream]) -> Build:
    """A windowed query; {w} in its text is a window."""

    def build(sql: str) -> Query:
        built = build_query("q", sql.replace("{w}", "[RANGE 1 HOUR SLIDE 1 MINUTE]"), streams)
        assert built.is_windowed, built
        return built

    return build
