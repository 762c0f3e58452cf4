"""A session in which SQL means something else is rejected when an engine starts on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watersmeet import Engine
from watersmeet.errors import RunError
from watersmeet.session import check_settings
from watersmeet.spark_settings import LETTERS_OF_THEIR_OWN, MEANINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SWITCH = ("true", "false")
OTHERS = {
    "spark.sql.session.timeZone": "Europe/Berlin",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    **{name: "false" if allowed[0] == "true" else "true" for name, allowed in MEANINGS.items() if allowed[0] in SWITCH},
}


def test_the_meanings_are_the_defaults_of_spark(spark: SparkSession) -> None:
    session = spark.newSession()
    for name, allowed in MEANINGS.items():
        if name != "spark.sql.session.timeZone":
            session.conf.unset(name)
            assert session.conf.get(name) == allowed[0], name
    assert OTHERS.keys() == MEANINGS.keys()


@pytest.mark.parametrize("name", MEANINGS)
def test_a_session_with_another_meaning_is_rejected(spark: SparkSession, name: str) -> None:
    session = spark.newSession()
    session.conf.set(name, OTHERS[name])
    with pytest.raises(RunError, match=f"has {name} = {OTHERS[name]}") as caught:
        check_settings(session)
    assert f'spark.conf.set("{name}"' in caught.value.hint
    session.conf.set(name, MEANINGS[name][0].lower() if name != "spark.sql.session.timeZone" else "Etc/UTC")
    check_settings(session)


@pytest.mark.parametrize("language", LETTERS_OF_THEIR_OWN)
def test_a_language_with_other_letters_is_rejected(spark: SparkSession, language: str) -> None:
    """They are the ones in which Spark changes some letter to another one."""
    assert spark._jvm is not None
    locale = spark._jvm.java.util.Locale
    usual = locale.getDefault()
    rows = spark.createDataFrame([("i é I É ά ΐ ì և Ì Į\u0301",)], "n string")
    letters = rows.selectExpr("upper(n)", "lower(n)")
    told = letters.collect()
    try:
        locale.setDefault(locale(language))
        with pytest.raises(RunError, match=f"Java process is {language}"):
            check_settings(spark)
        assert letters.collect() != told
    finally:
        locale.setDefault(usual)
    check_settings(spark)


def test_an_engine_does_not_start_on_such_a_session(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    (tmp_path / "in").mkdir()
    engine = Engine(session, tmp_path / "home")
    engine.sql(f"CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
    with pytest.raises(RunError, match=r"has spark\.sql\.ansi\.enabled = false"):
        engine.run_once()
    session.conf.set("spark.sql.ansi.enabled", "true")
    engine.run_once()
    engine.stop()


def test_the_zone_of_the_machine_counts_where_none_is_set(spark: SparkSession, tmp_path: Path) -> None:
    assert spark._jvm is not None
    zone, usual = spark._jvm.java.util.TimeZone, spark._jvm.java.util.TimeZone.getDefault()
    session = spark.newSession()
    session.conf.unset("spark.sql.session.timeZone")
    engine = Engine(session, tmp_path / "home")
    (tmp_path / "in").mkdir()
    engine.sql(f"CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM parquet '{tmp_path}/in';")
    try:
        zone.setDefault(zone.getTimeZone("Europe/Berlin"))
        assert session.sql("SELECT hour(TIMESTAMP '2026-01-01 00:00:00Z')").first() == (1,)
        with pytest.raises(RunError, match=r"has spark\.sql\.session\.timeZone = Europe/Berlin"):
            engine.start()
        for name in ("Etc/Universal", "UTC"):
            zone.setDefault(zone.getTimeZone(name))
            check_settings(session)
    finally:
        zone.setDefault(usual)


def test_a_setting_that_spark_does_not_have_changes_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MEANINGS, "spark.sql.not.there", ("true",))
    check_settings(spark)
