"""Options of Java for Spark sessions that live for minutes, as those of tests.

    python -m tests.support.quick_java FILE     records the classes that a session loads

Java's second compiler makes what such sessions hardly use, and takes a third of their time. Half of the time in which
a session starts goes into reading and verifying its classes: they are recorded once, in the environment that they
belong to, and every later session maps that file (Java calls it an archive for class data sharing).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SILENT = "-Xlog:disable"  # for an archive of other classes or of another Java: it is not used, and not worth a word


def quick_java() -> Mapping[str, str]:
    archive = _archive()
    if not archive.exists():
        print("Recording the classes of Spark, once, so that its sessions start in half of the time …", file=sys.stderr)
        _record(archive)
    return _environment(f"-XX:SharedArchiveFile={archive}" if archive.exists() else "")


def _environment(more: str) -> Mapping[str, str]:
    return {"SPARK_SUBMIT_OPTS": f"{_OPTIONS} {_SILENT} {more}".strip()}


def _archive() -> Path:
    import pyspark  # noqa: PLC0415

    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    said = subprocess.run([java, "-version"], capture_output=True, check=False).stderr
    name = sha256(said + pyspark.__version__.encode()).hexdigest()[:12]
    return Path(sys.prefix, f"spark-classes-{name}.jsa")


def _record(archive: Path) -> None:
    """Without an archive sessions start more slowly, and nothing else: what fails here fails nothing."""
    part = archive.with_suffix(f".{os.getpid()}")
    command = [sys.executable, "-m", "tests.support.quick_java"]
    environment = {**os.environ, **_environment(f"-XX:ArchiveClassesAtExit={part}")}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode == 0 and part.exists():
        part.replace(archive)
    part.unlink(missing_ok=True)


def _use_spark() -> None:
    """What nearly every session of the tests does: files, a stream, rows through Python."""
    from pyspark import SparkContext  # noqa: PLC0415

    from watersmeet.session import make_session  # noqa: PLC0415

    session = make_session("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        rows = session.range(100).selectExpr("id", "id % 7 AS k", "CAST(id AS STRING) AS s", "current_timestamp() AS t")
        for kind in ("parquet", "json", "csv"):
            rows.write.format(kind).save(f"{folder}/{kind}")
            read = session.read.schema(rows.schema).format(kind).load(f"{folder}/{kind}")
            read.join(rows, "id").groupBy(read["k"]).count().collect()
        arriving = session.readStream.schema(rows.schema).json(f"{folder}/json")
        arriving.mapInArrow(lambda batches: batches, rows.schema).writeStream.trigger(availableNow=True).start(
            f"{folder}/out", format="parquet", checkpointLocation=f"{folder}/checkpoint"
        ).awaitTermination()
    session.stop()
    java = SparkContext._gateway
    assert java is not None
    java.shutdown()
    java.proc.stdin.close()  # by which Spark's process ends, and Java writes the archive
    java.proc.wait()


if __name__ == "__main__":
    _use_spark()
