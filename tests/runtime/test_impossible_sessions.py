"""Sessions on which an engine cannot run are rejected at once, and a failed engine says so wherever it is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkAttributeError

from tests.support.inside import loop_of
from tests.support.parquet_input import seconds_after_epoch, write_file
from tests.support.waiting import eventually
from watersmeet import Engine, __version__, worker_check
from watersmeet.errors import InputError, ModelError, RunError
from watersmeet.session import make_session
from watersmeet.spark_reason import spark_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engine_on(folder: Path, spark: SparkSession | None = None, **options: str) -> Engine:
    (folder / "in").mkdir(exist_ok=True)
    engine = Engine(spark, folder / "home", **options)
    engine.sql(f"CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM parquet '{folder}/in';")
    engine.query("q", "SELECT x.k FROM s [RANGE 1 SECOND] x, s [RANGE 1 SECOND] y WHERE x.k = y.k")
    return engine


@pytest.fixture
def stranger(tmp_path: Path) -> str:
    """A Python of the same version without any package."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncd /\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize("python", ["stranger", "/nowhere/python"])
def test_workers_that_cannot_execute_orders_are_found_at_the_start(
    spark: SparkSession,
    tmp_path: Path,
    stranger: str,
    python: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_check, "_passed", set())
    monkeypatch.setattr(spark.sparkContext, "pythonExec", stranger if python == "stranger" else python)
    with engine_on(tmp_path, spark) as engine, pytest.raises(RunError) as caught:
        engine.start()
    assert "PYSPARK_PYTHON" in caught.value.hint and __version__ in caught.value.hint
    assert "No module named" in str(caught.value) or "/nowhere/python" in str(caught.value)
    assert "stopped" in repr(engine)


def test_workers_of_another_version_are_found_at_the_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_check, "_passed", set())
    monkeypatch.setattr(worker_check, "__version__", "0.0.1")
    with engine_on(tmp_path, spark) as engine:
        with pytest.raises(RunError, match=f"have watersmeet {__version__}, and this is 0.0.1"):
            engine.start()
        monkeypatch.undo()
        engine.start()


def failed(folder: Path) -> Engine:
    """An engine whose first tick has failed, and nobody has waited for it."""
    engine = engine_on(folder, executor="local")
    engine.start()
    loop_of(engine).executor.submit = _broken  # type: ignore[method-assign, assignment]
    write_file(folder / "in", 0, pa.table({"at": seconds_after_epoch([1]), "k": pa.array([1], pa.int32())}))
    eventually(lambda: engine.failure is not None)
    return engine


def _broken(*_: object) -> None:
    raise ValueError("the tasks are gone")


def test_a_failed_engine_says_so(tmp_path: Path) -> None:
    engine = failed(tmp_path)
    assert "failed: a tick failed" in repr(engine)
    assert "the tasks are gone" in engine.stats().failure
    with pytest.raises(RunError, match="the tasks are gone"):
        engine.stop()
    assert "failed: a tick failed" in repr(engine)
    engine.stop()  # it was said
    engine.start()
    assert "running" in repr(engine) and not engine.stats().failure
    engine.stop()


def test_a_failed_engine_starts_again_once_the_user_was_told(tmp_path: Path) -> None:
    engine = failed(tmp_path)
    with pytest.raises(RunError, match="the tasks are gone"):
        engine.start()
    engine.start()
    eventually(lambda: engine.stats().tick == 1)
    engine.stop()


def test_whoever_reads_the_results_of_a_failed_engine_is_told_once(tmp_path: Path, spark: SparkSession) -> None:
    engine = failed(tmp_path)
    engine._spark = spark
    with pytest.raises(RunError, match="the tasks are gone"):
        engine["q"].results()
    assert engine["q"].results().count() == 0
    engine.stop()


def test_a_failure_does_not_hide_an_exception(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="of the user"), failed(tmp_path):
        raise KeyError("of the user")
    with pytest.raises(RunError, match="the tasks are gone"), failed(tmp_path / "home"):
        pass


class OfSparkConnect:
    """What PySpark's own raises where a JVM is asked for; its packages are not installed here."""

    def __getattr__(self, name: str) -> None:
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})


def test_a_session_of_spark_connect_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="Spark Connect"):
        Engine(OfSparkConnect(), tmp_path / "home")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="Spark Connect"):
        Engine(home=tmp_path / "home", master="sc://host")
    for settings in ({"spark.remote": "sc://host"}, {"spark.api.mode": "connect"}):
        with pytest.raises(RunError, match="Spark Connect"):
            make_session(None, settings)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(RunError, match="SPARK_REMOTE"):
        make_session()


def test_a_cluster_without_what_it_needs_is_rejected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RunError, match="the YARN cluster is not named") as caught:
        _ = Engine(home=tmp_path / "home", master="yarn").spark
    assert "HADOOP_CONF_DIR" in caught.value.hint
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(RunError, match=r"no yarn-site\.xml"):
        make_session("yarn")
    with pytest.raises(RunError, match=r"no yarn-site\.xml"):
        make_session(None, {"spark.master": "yarn"})
    with pytest.raises(RunError, match="no image") as caught:
        make_session("k8s://https://127.0.0.1:1")
    assert "spark.kubernetes.container.image" in caught.value.hint
    with pytest.raises(ModelError, match="master") as rejected:
        Engine(home=tmp_path / "home", master="mesos://host:5050")
    assert "Mesos" in rejected.value.hint


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3a://bucket/folder", "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        ("hdfs://127.0.0.1:1/folder", "Connection refused"),
        ("nofs://bucket/folder", 'No FileSystem for scheme "nofs"'),
    ],
)
def test_the_cause_of_spark_is_in_the_message(spark: SparkSession, tmp_path: Path, path: str, said: str) -> None:
    with Engine(spark, tmp_path / "home") as engine:
        engine.sql(f"CREATE STREAM far (at TIMESTAMP) TIMESTAMP BY at FROM parquet '{path}';")
        with pytest.raises(InputError, match="stream far: Spark cannot read parquet") as caught:
            engine.start()
    assert said in caught.value.detail
    assert ("spark.jars.packages" in caught.value.hint) == ("Class" in said)


def test_what_a_python_task_raised_is_in_the_message(spark: SparkSession) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError(f"in {os.path.sep}")

    with pytest.raises(Exception) as caught:
        spark.sparkContext.parallelize([0], 1).map(fail).collect()
    assert spark_reason(caught.value) == "ZeroDivisionError: in /"
    with pytest.raises(Exception) as caught:
        spark.sql("SELECT raise_error('boo')").collect()
    assert spark_reason(caught.value).startswith("[USER_RAISED_EXCEPTION] boo")


STOPPED_BELOW = """
import sys
from watersmeet import Engine
from watersmeet.errors import RunError
from watersmeet.session import make_session

spark = make_session("local[2,4]")
engine = Engine(spark, sys.argv[1] + "/home")
if sys.argv[2] == "files":
    engine.sql(f"CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM parquet '{sys.argv[1]}/in';")
else:
    rows = spark.readStream.format("rate").load().withColumnsRenamed({"timestamp": "at", "value": "k"})
    engine.stream("s", rows, time="at")
query = engine.query("q", "SELECT k FROM s [RANGE 1 SECOND] x")
engine.start()
while sys.argv[2] != "files" and not engine.stats().tick:
    pass
spark.stop()
for call in (engine.wait, engine.stop, query.results, engine.start):
    print(engine, str(engine.failure).splitlines()[0], sep="; ")
    try:
        call()
    except RunError as problem:
        print(call.__name__, problem.problem, bool(problem.hint))
"""


@pytest.mark.parametrize("source", ["files", pytest.param("rate", marks=pytest.mark.thorough)])
def test_a_session_that_was_stopped_below_an_engine(tmp_path: Path, source: str) -> None:
    (tmp_path / "in").mkdir()
    command = [sys.executable, "-c", STOPPED_BELOW, str(tmp_path), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    problem = "the Spark session was stopped"
    shown = f"<Engine home: 1 stream, 1 query, failed: {problem}>; {problem}"
    assert done.stdout.splitlines() == [
        shown,
        f"wait {problem} True",
        shown,
        shown,
        f"results {problem} True",
        shown,
        f"start {problem} True",
    ], done.stderr
