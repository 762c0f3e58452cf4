"""A trial task: whether the Python of Spark's workers can execute orders of this engine.

A session of the user's own starts workers with whatever PYSPARK_PYTHON names, on whatever hosts it has. Without the
trial the tasks of such a session fail one after the other, and the engine waits for them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from watersmeet import __version__
from watersmeet.errors import RunError
from watersmeet.spark_reason import spark_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Found = tuple[str, str, str, str]  # host, Python, version of watersmeet, what is wrong
_passed: set[str] = set()  # applications of Spark whose workers are known to be fine


def check_workers(session: SparkSession, is_given: bool) -> None:
    """Raise what keeps a worker from executing orders. `is_given`: the user has made the session, not the engine."""
    context = session.sparkContext
    if context.applicationId in _passed or (not is_given and _are_alike(session)):
        return
    tasks = 1 if str(context.master).startswith("local[") or context.master == "local" else context.defaultParallelism
    try:
        found: list[_Found] = context.parallelize(range(tasks), tasks).mapPartitions(_by_value()).collect()
    except Exception as problem:
        raise _impossible("Spark cannot run Python tasks", spark_reason(problem)) from None
    for host, python, version, wrong in found:
        if wrong:
            raise _impossible(f"the Python of Spark's workers cannot execute orders: {wrong}", f"{python} on {host}.")
        if version != __version__:
            raise _impossible(
                f"Spark's workers have watersmeet {version}, and this is {__version__}", f"{python} on {host}."
            )
    _passed.add(context.applicationId)


def _are_alike(session: SparkSession) -> bool:
    """Whether the workers of a session that the engine has made are sure to have what this process has: they are on
    this machine, they run this Python, and the package is installed, not only on the path of this process."""
    if not str(session.sparkContext.master).startswith("local") or session.sparkContext.pythonExec != sys.executable:
        return False
    try:
        return bool(importlib.metadata.version("watersmeet"))
    except importlib.metadata.PackageNotFoundError:
        return False


def _impossible(problem: str, detail: str) -> RunError:
    return RunError(
        problem,
        detail=detail,
        hint="before the session is made, set PYSPARK_PYTHON to a Python that has what this one has "
        f"({sys.executable}, watersmeet {__version__}), on every host of the cluster",
    )


def _by_value() -> Callable[[Iterable[int]], Iterator[_Found]]:
    """The function as its code, not as the name of a module that a worker may not have."""
    _examine.__module__ = "__main__"
    return _examine


def _examine(_: Iterable[int]) -> Iterator[_Found]:
    """In a worker. Of this module it may use nothing but what Python itself has."""
    python, version, wrong = f"{sys.executable} ({platform.python_version()})", "", ""
    try:
        importlib.import_module("watersmeet.runtime.exec.worker")  # and with it all packages that orders need
        version = str(importlib.import_module("watersmeet").__version__)
    except Exception as problem:
        wrong = f"{type(problem).__name__}: {problem}"
    yield platform.node(), python, version, wrong
