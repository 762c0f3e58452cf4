"""Systems in processes of their own, so that the CPU time of each is known."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.comparing import BENCH
from bench.observe import CLOSELY, Observed, end_family, observe

LONGEST = 1800  # seconds that a system may take


@contextmanager
def started(command: list[str], log: Path) -> Iterator[tuple[subprocess.Popen[str], Observed]]:
    """A process that is ended afterwards, with all that it has started."""
    environment = {**os.environ, "PYTHONPATH": str(BENCH.parent)}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment)
    observed, watching = observe(running, None, CLOSELY)
    try:
        yield running, observed
    finally:
        end_family(running)
        watching.join()


def run_peer(python: str, module: str, *arguments: str, log: Path) -> tuple[float, Observed]:
    """Run a program to its end; when it says that it began (`began SECONDS`), and its CPU time."""
    with started([python, "-m", module, *arguments], log) as (running, observed):
        code = running.wait(LONGEST)
    if code:
        raise SystemExit(f"{module} failed:\n{log.read_text()[-3000:]}")
    return began(log), observed


def began(log: Path) -> float:
    return next(float(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("began "))


def spark_python() -> str:
    return sys.executable


def flink_python() -> str:
    subprocess.run([BENCH / "peers" / "set-up", "flink"], check=True)
    return str(BENCH / ".venv-flink" / "bin" / "python")
