"""A Spark session set up for short ticks on one machine."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.errors import RunError
from watersmeet.home.files import make_home, private
from watersmeet.spark_settings import LETTERS_OF_THEIR_OWN, MEANINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("watersmeet")

SETTINGS = {
    "spark.python.daemon.module": "watersmeet.runtime.daemon",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.execution.arrow.maxBytesPerBatch": "33554432",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.adaptive.enabled": "false",
    # Files below this size are not split: half of a Parquet file with one row group is a task without rows.
    "spark.sql.files.openCostInBytes": "16777216",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Six windowed queries that Spark computes have 180 classes of generated code. With room for fewer, each window
    # compiles all of them again, and so does the JVM.
    "spark.sql.codegen.cache.maxEntries": "10000",
}

# With all of Spark in one process no other host connects to it; on a cluster Spark finds the right address itself.
LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

SECRET_VARIABLE = "SPARK_AUTHENTICATE_SECRET"  # of the environment: the secret of a standalone cluster
_STANDALONE = "spark://"
_AUTHENTICATE, _SECRET = "spark.authenticate", "spark.authenticate.secret"
_IS_SECRET = re.compile("secret|password|token", re.IGNORECASE)  # not for the list of processes, which everybody sees


def check_settings(session: SparkSession) -> None:
    """Reject a session in which SQL means something else than here."""
    for name, allowed in MEANINGS.items():
        value = str(session.conf.get(name, allowed[0]))  # one that this version of Spark does not have changes nothing
        if value.lower() not in [each.lower() for each in allowed]:
            raise RunError(
                f"the Spark session has {name} = {value}, and expressions are computed as with {allowed[0]}",
                hint=f'set it before the engine starts: spark.conf.set("{name}", "{allowed[0]}")',
            )
    language = str(session._jvm.java.util.Locale.getDefault().getLanguage())  # type: ignore[union-attr]
    if language in LETTERS_OF_THEIR_OWN:
        raise RunError(
            f"the language of Spark's Java process is {language}, which has rules of its own for upper and lower case",
            hint="start it with another one: --conf spark.driver.extraJavaOptions=-Duser.language=en",
        )


def make_session(
    master: str | None = None, settings: dict[str, str] | None = None, log: Path | None = None
) -> SparkSession:
    """A new session: all cores of this machine, each task tried up to four times.

    It has two slots for each core: one for a resident task, one for other jobs.

    `log` is the file for Spark's output, if this process has no Spark yet; without it the output goes to the terminal.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    local = not master or master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    given = settings or {}
    chosen = {**SETTINGS, **_authentication(master or "", given), **(LOCAL_SETTINGS if local else {}), **given}
    if log is not None:
        _launch_jvm({name: value for name, value in chosen.items() if not _IS_SECRET.search(name)}, log)
    if (master or "").startswith(_STANDALONE):
        _check_secret(str(master), chosen)
    builder = SparkSession.builder.appName("watersmeet").master(master or f"local[{2 * cores()},4]")
    if (master or "").startswith("local-cluster"):
        builder = builder.config(_SECRET, secrets.token_hex(32))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _authentication(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's ports are for those who know a secret, which Spark makes and brings to its processes itself. All of a
    standalone cluster has one secret, which the user has to name."""
    if not master.startswith(_STANDALONE):
        return {_AUTHENTICATE: "true"}
    secret = given.get(_SECRET) or os.environ.get(SECRET_VARIABLE)
    return {_AUTHENTICATE: "true", _SECRET: secret} if secret else {}


def _check_secret(master: str, chosen: Mapping[str, str]) -> None:
    """Reject a standalone cluster without a secret, unless that is what the user has set."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # so that spark-defaults.conf has been read
    authenticates = chosen.get(_AUTHENTICATE) or SparkConf().get(_AUTHENTICATE)
    if authenticates is None:
        raise RunError(
            f"no secret is set for the cluster {master}",
            detail="Without one, whoever reaches the ports of its processes can run code in them.",
            hint=f"set the environment variable {SECRET_VARIABLE} to the cluster's {_SECRET}, or both {_AUTHENTICATE} "
            f"and {_SECRET} in spark-defaults.conf; if the cluster has none: --set {_AUTHENTICATE}=false",
        )
    if authenticates.lower() != "true":
        _log.warning("the cluster %s is used without authentication: whoever reaches its ports can run code", master)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _launch_jvm(settings: dict[str, str], log: Path) -> None:
    """Start the JVM with its output in a file, and in a session of its own.

    A signal for the whole group of processes (Ctrl-C, a supervisor's SIGTERM) then leaves it alive until the
    running tick is finished; it ends when this process does, because its standard input is then closed.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    make_home(log.parent)
    try:
        with open(log, "ab", opener=private) as output:
            output_to = {"stdout": output, "stderr": output, "start_new_session": True}
            conf = SparkConf().setAll(list(settings.items()))
            gateway = launch_gateway(conf, output_to)  # type: ignore[no-untyped-call]
    except PySparkRuntimeError:
        raise RunError("Spark's Java process ended before it was ready", hint=f"read its log: {log}") from None
    gateway.jvm.java.util.Locale.setDefault(gateway.jvm.java.util.Locale.US)  # of the machine it may be any other
    SparkContext._ensure_initialized(gateway=gateway)


def check_java() -> None:
    """Spark needs Java 17 or newer; its own message for a missing one has no hint."""
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    try:
        said = subprocess.run([java or "java", "-version"], capture_output=True, text=True, check=True).stderr
        version = int(said.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        version = 0
    if version < 17:
        found = f"Java {version} was found" if version else "no Java was found"
        raise RunError(
            f"Spark needs Java 17 or newer; {found}",
            hint="install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
            "or set JAVA_HOME",
        )
