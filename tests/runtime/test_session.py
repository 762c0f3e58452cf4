"""Spark's ports: on loopback where everything is on this machine, and for those who know the secret. And what else
depends on how a session is started."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.strangers import answer_to_a_stranger, check_rejected
from watersmeet.errors import RunError
from watersmeet.session import SECRET_VARIABLE, SETTINGS, _authentication, _check_secret, make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "spark://host:7077"


def test_a_stranger_does_not_get_past_the_authentication(spark: SparkSession) -> None:
    check_rejected(answer_to_a_stranger(int(str(spark.conf.get("spark.driver.port")))))


def test_the_ports_of_the_driver_are_on_loopback(spark: SparkSession) -> None:
    java = [child for child in psutil.Process().children() if "java" in child.name()]
    listening = [c for child in java for c in child.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {connection.laddr.ip.removeprefix("::ffff:") for connection in listening} == {"127.0.0.1"}


@pytest.mark.thorough
def test_code_that_many_queries_generate_is_compiled_once(spark: SparkSession) -> None:
    """Windows come again and again, of queries with hundreds of classes together."""
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]
    plans = [spark.range(1).selectExpr(f"id * {number}")._jdf.queryExecution() for number in range(1_000, 1_150)]
    counts = []
    for _ in range(2):
        before = compiled.getCount()
        for plan in plans:
            plan.debug().codegenToSeq()
        counts.append(compiled.getCount() - before)
    assert counts == [len(plans), 0]


@pytest.mark.parametrize("master", ["", "local[2]", "local-cluster[1,1,1024]", "yarn", "k8s://host"])
def test_where_spark_makes_the_secret_it_is_used(master: str) -> None:
    assert _authentication(master, {}) == {"spark.authenticate": "true"}


def test_a_standalone_cluster_has_the_secret_that_the_user_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    assert _authentication(CLUSTER, {}) == {}
    on = {"spark.authenticate": "true", "spark.authenticate.secret": "a"}
    assert _authentication(CLUSTER, {"spark.authenticate.secret": "a"}) == on
    monkeypatch.setenv(SECRET_VARIABLE, "a")
    assert _authentication(CLUSTER, {}) == on
    assert _authentication(CLUSTER, {"spark.authenticate.secret": "b"})["spark.authenticate.secret"] == "b"


def test_a_standalone_cluster_without_a_secret_is_rejected(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    # The Java process of this session was started with authentication, as one for a cluster is not.
    monkeypatch.setattr("pyspark.SparkConf.get", lambda conf, name: None)
    with pytest.raises(RunError, match="no secret is set") as rejected:
        make_session(CLUSTER)
    assert SECRET_VARIABLE in rejected.value.hint and "spark.authenticate=false" in rejected.value.hint
    with caplog.at_level(logging.WARNING):
        _check_secret(CLUSTER, {"spark.authenticate": "false"})
    assert "without authentication" in caplog.text
    caplog.clear()
    _check_secret(CLUSTER, {"spark.authenticate": "true"})
    assert not caplog.text


def test_collections_of_workers_leave_the_memory_that_they_share(spark: SparkSession) -> None:
    (frozen,) = spark.sparkContext.parallelize([0], 1).map(lambda _: gc.get_freeze_count()).collect()
    assert frozen > 10_000, "objects of imported modules"


def test_no_secret_is_in_the_list_of_processes(spark: SparkSession) -> None:
    assert not [name for name in SETTINGS if "secret" in name]
    for child in psutil.Process().children():
        assert "secret" not in " ".join(child.cmdline())


def test_a_secret_that_a_user_sets_is_not_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: dict[str, str] = {}

    def launch(settings: dict[str, str], log: Path) -> None:
        launched.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr("watersmeet.session._launch_jvm", launch)
    with pytest.raises(KeyboardInterrupt):
        make_session("spark://host:7077", {"spark.authenticate.secret": "x", "spark.cores.max": "1"}, tmp_path / "log")
    assert launched["spark.cores.max"] == "1" and "spark.authenticate.secret" not in launched
