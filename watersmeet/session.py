"""A Spark session set up for short ticks on one machine."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.errors import RunError, session_stopped
from watersmeet.home.files import make_home, private
from watersmeet.socket_folder import make_socket_folder
from watersmeet.spark_reason import spark_reason
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
    """Reject a session in which SQL means something else than here.

    What counts is what Spark computes with, also where nothing is set: the zone is then that of the Java process."""
    for name, allowed in MEANINGS.items():
        value = _effective(session, name)
        if value is None or value.lower() in [each.lower() for each in allowed]:
            continue
        if name == "spark.sql.session.timeZone" and _is_utc(session, value):
            continue
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


def _effective(session: SparkSession, name: str) -> str | None:
    """The value of a setting; None for one that this version of Spark does not have, which changes nothing."""
    from pyspark.errors import PySparkException

    try:
        return str(session.conf.get(name))  # unlike with a default of ours, one that is not set has Spark's
    except PySparkException as problem:
        if problem.getCondition() == "SQL_CONF_NOT_FOUND":
            return None
        raise


def _is_utc(session: SparkSession, zone: str) -> bool:
    """Whether a zone has the rules of UTC under another name: Etc/Universal, UTC+00:00."""
    java: Any = session._jvm
    rules = java.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).getRules()
    return bool(rules.equals(java.java.time.ZoneOffset.UTC.getRules()))


def check_session(session: SparkSession | None) -> None:
    """Reject a session of the user's that an engine cannot run on at all."""
    if session is None:
        return
    if not hasattr(session, "_jsparkSession"):
        raise RunError(
            "the session is one of Spark Connect, and an engine needs Spark in its own process",
            detail="Its tasks take orders from this process, which a Connect server does not let them reach.",
            hint='make a classic session: SparkSession.builder.master("local[*]").getOrCreate(), without remote(…), '
            "SPARK_REMOTE and spark.api.mode=connect; or leave it to the engine: Engine(home=…)",
        )
    if (stopped := session_problem(session)) is not None:
        raise stopped


def session_problem(session: SparkSession | None) -> RunError | None:
    """The error of a session that was stopped while an engine uses it; None if it was not."""
    return session_stopped() if session is not None and session.sparkContext._jsc is None else None


def _check_classic(settings: Mapping[str, str]) -> None:
    """Reject settings with which Spark makes a session of Spark Connect."""
    remote = settings.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    mode = settings.get("spark.api.mode", "")
    if remote or os.environ.get("SPARK_CONNECT_MODE_ENABLED") or mode.lower() == "connect":
        raise RunError(
            f"Spark Connect is asked for{f' ({remote})' if remote else ''}; an engine needs Spark in its own process",
            hint="unset SPARK_REMOTE, SPARK_CONNECT_MODE_ENABLED, spark.remote and spark.api.mode, and name a master: "
            "--set master=local[4] or --set master=spark://host:7077",
        )


def _check_yarn(master: str) -> None:
    """Reject YARN without the configuration of its cluster: Spark would look for it on this machine, for minutes."""
    folders = [folder for name in ("YARN_CONF_DIR", "HADOOP_CONF_DIR") if (folder := os.environ.get(name))]
    if master == "yarn" and not any(Path(folder, "yarn-site.xml").is_file() for folder in folders):
        named = f"{', '.join(folders)}: no yarn-site.xml" if folders else "the YARN cluster is not named"
        raise RunError(
            f"master=yarn: {named}",
            hint="set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder with its core-site.xml and yarn-site.xml; "
            "without a cluster leave master empty",
        )


def _check_kubernetes(master: str, chosen: Mapping[str, str]) -> None:
    """Reject Kubernetes without an image: no executor would start, and Spark would wait for ever."""
    names = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")
    if not any(_setting(name, chosen) for name in names):
        raise RunError(
            f"master={master}: no image for the executors is named",
            hint=f"--set {names[0]}=… with Spark, this Python and watersmeet in it; all of them need the home",
        )


def _setting(name: str, chosen: Mapping[str, str]) -> str | None:
    """A setting that is chosen, or that is in spark-defaults.conf."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # so that the file has been read
    return chosen.get(name) or SparkConf().get(name)


def make_session(
    master: str | None = None, settings: dict[str, str] | None = None, log: Path | None = None
) -> SparkSession:
    """A new session: all cores of this machine, each task tried up to four times.

    It has two slots for each core: one for a resident task, one for other jobs.

    `log` is the file for Spark's output, if this process has no Spark yet; without it the output goes to the terminal.
    """
    given = settings or {}
    master = given.get("spark.master") or master or ""  # the setting is what Spark would obey
    _check_classic(given)
    _check_yarn(master)
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    local = not master or master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    for_place = {**LOCAL_SETTINGS, **_socket_settings()} if local else {}
    chosen = {**SETTINGS, **for_place, **_authentication(master, given), **given}
    if log is not None:
        _launch_jvm({name: value for name, value in chosen.items() if not _IS_SECRET.search(name)}, log)
    if master.startswith(_STANDALONE):
        _check_secret(master, chosen)
    if master.startswith("k8s://"):
        _check_kubernetes(master, chosen)
    builder = SparkSession.builder.appName("watersmeet").master(master or f"local[{2 * cores()},4]")
    if master.startswith("local-cluster"):
        builder = builder.config(_SECRET, secrets.token_hex(32))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as problem:
        where = f" on {master}" if master else ""
        raise RunError(
            f"Spark could not be started{where}",
            detail=spark_reason(problem),
            hint="check the master and the settings of Spark",
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    accumulators: Any = session.sparkContext._accumulatorServer
    accumulators.handle_error = _ignore  # if Java ends, it prints a stack trace, beside the error that is shown
    return session


@functools.cache
def _socket_settings() -> dict[str, str]:
    """The folder for the sockets of Spark, which it leaves behind: one of this process, removed at its end."""
    folder = make_socket_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.python.unix.domain.socket.dir": folder}


def _ignore(*_: object) -> None:
    pass


def _authentication(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's ports are for those who know a secret, which Spark makes and brings to its processes itself. All of a
    standalone cluster has one secret, which the user has to name."""
    if not master.startswith(_STANDALONE):
        return {_AUTHENTICATE: "true"}
    secret = given.get(_SECRET) or os.environ.get(SECRET_VARIABLE)
    return {_AUTHENTICATE: "true", _SECRET: secret} if secret else {}


def _check_secret(master: str, chosen: Mapping[str, str]) -> None:
    """Reject a standalone cluster without a secret, unless that is what the user has set."""
    authenticates = _setting(_AUTHENTICATE, chosen)
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
    """Reject a missing Java, or one before 17; Spark's own message has no hint."""
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
