"""Windows in tasks and in Spark, over the same rows: more generated queries than every commit compares."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.windowed.conftest import SCRIPT
from tests.sql.windowed.test_task_as_spark import Pair, compared
from tests.support.declarations import streams_of
from watersmeet.model import Query
from watersmeet.sql import build_query

pytestmark = pytest.mark.semantics


def test_random_queries(spark: Any) -> None:
    streams = streams_of(SCRIPT)

    def query(sql: str) -> Query:
        return build_query("q", sql.replace("{w}", "[RANGE 1 HOUR SLIDE 1 MINUTE]"), streams)

    compared(query, Pair(spark, streams), streams, 700)
