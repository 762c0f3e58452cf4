"""The streams that the SQL tests read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.declarations import join_form, streams_of
from watersmeet.model import JoinForm, Stream

SCRIPT = """
CREATE STREAM orders (id BIGINT, customer INT, price DECIMAL(10, 2), Note STRING, day DATE, ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'orders';
CREATE STREAM items (order_id BIGINT, sku STRING, qty INT, weight DOUBLE, ts TIMESTAMP_NTZ)
  TIMESTAMP BY ts FROM parquet 'items';
CREATE STREAM wide (k INT, x INT, y INT, d DOUBLE, n STRING, ts TIMESTAMP, dt DATE, m MAP<STRING, INT>,
  arr ARRAY<INT>, de DECIMAL(10, 2), b BINARY, st STRUCT<f: INT>, ok BOOLEAN, tn TIMESTAMP_NTZ)
  TIMESTAMP BY ts FROM parquet 'wide';
"""


@pytest.fixture(scope="session")
def streams() -> dict[str, Stream]:
    return streams_of(SCRIPT)


@pytest.fixture(scope="session")
def query(streams: dict[str, Stream]) -> Callable[[str], JoinForm]:
    return lambda sql: join_form("q", sql, streams)
