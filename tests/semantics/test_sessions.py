"""A session in which SQL means something else is rejected when an engine starts on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watersmeet import Engine
from watersmeet.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("name", "value"),
    [("session.timeZone", "Europe/Berlin"), ("ansi.enabled", "false"), ("caseSensitive", "true")],
)
def test_a_session_with_another_meaning_is_rejected(spark: SparkSession, tmp_path: Path, name: str, value: str) -> None:
    session = spark.newSession()
    session.conf.set(f"spark.sql.{name}", value)
    (tmp_path / "in").mkdir()
    engine = Engine(session, tmp_path / "home")
    engine.sql(f"CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
    with pytest.raises(RunError, match=f"has spark.sql.{name} = {value}") as caught:
        engine.run_once()
    assert f'spark.conf.set("spark.sql.{name}"' in caught.value.hint
    session.conf.set(f"spark.sql.{name}", {"session.timeZone": "UTC", "ansi.enabled": "true"}.get(name, "false"))
    engine.run_once()
    engine.stop()
