"""A real Spark cluster on this machine: a master and two workers as processes of their own, ended by their ids."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark

from tests.support.processes import environment, kill_tree
from tests.support.waiting import PATIENCE, eventually


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.address = f"spark://127.0.0.1:{self.port}"
        self.secret = secrets.token_hex(16)  # of the cluster and of its applications
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int = 2) -> None:
        at_home = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._launch("master.Master", [*at_home, "--port", str(self.port)], "I have been elected leader")
        for number in range(workers):
            place = self.folder / f"worker-{number}"
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(place)]
            self._launch("worker.Worker", [*at_home, *size, self.address], "Successfully registered with master")

    def stop(self) -> None:
        """Ends the cluster's processes and what they started, by their ids."""
        for process in reversed(self.processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                kill_tree(process.pid)
            process.wait(PATIENCE)

    def executors(self) -> list[psutil.Process]:
        found = []
        for process in self.processes[1:]:
            for child in psutil.Process(process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                        found.append(child)
        return found

    def _launch(self, name: str, arguments: list[str], ready: str) -> None:
        log = self.folder / f"{name}-{len(self.processes)}.log"
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        settings = environment(
            PYSPARK_PYTHON=sys.executable,
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_DAEMON_MEMORY="256m",
            SPARK_DAEMON_JAVA_OPTS=f"-Dlog4j2.configurationFile={_logging(self.folder)} -Dspark.authenticate=true",
            _SPARK_AUTH_SECRET=self.secret,  # where Spark's processes look for it
        )
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen([*command, *arguments], stdout=output, stderr=output, cwd=self.folder, env=settings)
            )
        process = self.processes[-1]
        eventually(lambda: ready in log.read_text() or process.poll() is not None, f"{name} was not ready")
        assert process.poll() is None, f"{name}: {log.read_text()[-3000:]}"


def _logging(folder: Path) -> Path:
    """What the processes say at the level that tells when they are ready."""
    path = folder / "log4j2.properties"
    path.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = console\nappender.console.type = Console\n"
        "appender.console.name = console\nappender.console.target = SYSTEM_ERR\n"
        "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %d %p %c{1}: %m%n\n"
    )
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
