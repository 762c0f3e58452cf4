"""A Spark session set up for short ticks on one machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from watersmeet.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.python.daemon.module": "watersmeet.runtime.daemon",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.execution.arrow.maxBytesPerBatch": "33554432",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}


def make_session(master: str | None = None, settings: dict[str, str] | None = None) -> SparkSession:
    """A session of our own: all cores of this machine, each task tried up to four times."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("watersmeet").master(master or "local[*,4]")
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def check_java() -> None:
    """Spark needs Java 17 or newer; its own message for a missing one does not say what to do."""
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    try:
        said = subprocess.run([java or "java", "-version"], capture_output=True, text=True, check=True).stderr
        version = int(said.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        version = 0
    if version < 17:
        found = f"Java {version} was found" if version else "no Java was found"
        raise RunError(
            f"Spark needs Java 17 or newer, and {found}",
            hint="install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
            "or let JAVA_HOME point to one",
        )
