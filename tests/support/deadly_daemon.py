"""Spark's Python daemon whose workers are killed when they write results of a query named `hot`, as
the system kills a process that takes too much memory; named by `spark.python.daemon.module`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark import daemon

import watersmeet.runtime.daemon  # noqa: F401 - what a worker of the product has before the fork
from watersmeet import points


def killed(point: str, about: object) -> None:
    if point == "results.write" and isinstance(about, Path) and any(part == "hot" for part in about.parts):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    points.subscribe(killed)
    daemon.manager()
