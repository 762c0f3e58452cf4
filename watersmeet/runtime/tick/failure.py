"""Turns any failure of a tick into an error with a hint."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path
from typing import Any

from watersmeet.errors import RunError, WatersmeetError, session_stopped
from watersmeet.home import layout
from watersmeet.spark_reason import spark_reason

MORE_MEMORY = (
    "give it more (--set spark.driver.memory=8g, on a cluster spark.executor.memory) and run again with the home"
)
_UNCHANGED = "The running tick was not committed; all ticks before it are complete."
_OUT_OF_MEMORY = 52  # the exit code of Spark
_ENDING = 30.0  # seconds that it may take Java to end


def explain_failure(problem: BaseException, home: Path, tick: int | None = None) -> WatersmeetError:
    """`tick` is the one that ran, if one did."""
    if isinstance(problem, WatersmeetError):
        return problem
    if tick is not None and layout.manifest(home, tick).exists():
        return RunError(
            f"tick {tick} was committed, but what follows its commit failed",
            detail=spark_reason(problem),
            hint=f"correct the cause and run again with the same home {home}: the run does the rest and goes on",
        )
    text = text_of(problem)
    if is_full(problem):
        return no_space(str(home))
    if ran_out_of_memory(problem):
        return RunError("Spark's Java process ran out of memory", detail=_UNCHANGED, hint=f"{MORE_MEMORY} {home}")
    if spark_has_ended(problem):
        return session_stopped() if _java_answers() else _java_ended(home)
    advice = "correct the cause"
    if "Wrong basePath" in text:
        advice = "the input of a stream was moved: move it back"
    elif "[FAILED_READ_FILE" in text:
        advice = "move the file away, or put a readable one in its place,"
    return RunError(
        "a tick failed; nothing of it was committed, and the next run repeats it",
        detail=spark_reason(problem),
        hint=f"{advice} and run again with the same home {home}",
    )


def _java_ended(home: Path) -> RunError:
    return RunError(
        "Spark's Java process has ended",
        detail=_UNCHANGED,
        hint=f"check spark.driver.memory and run again with the same home {home}: the run resumes there",
    )


def text_of(problem: BaseException) -> str:
    """What an exception says. One of Java's asks Java for it, which may be gone."""
    try:
        return str(problem)
    except Exception as gone:
        return f"{type(problem).__name__}: {type(gone).__name__}"


def is_full(problem: BaseException) -> bool:
    """Whether the reason is a full disk; Java's errors have only the words for it."""
    full = isinstance(problem, OSError) and problem.errno == errno.ENOSPC
    return full or "No space left on device" in text_of(problem)


def was_cut_off(problem: BaseException, home: Path, tick: int) -> bool:
    """Whether a call to Java had no answer though Java runs, in a tick that is not committed: so it can be repeated.

    Py4J does that where a call of another thread is interrupted. It closes connections of others, and repeats what
    they had called, but only once: the next connection may have been closed, too."""
    from py4j.protocol import Py4JError, Py4JJavaError

    is_of_java = isinstance(problem, Py4JError) and not isinstance(problem, Py4JJavaError)
    return is_of_java and not layout.manifest(home, tick).exists() and _answers()


def spark_has_ended(problem: BaseException) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    if isinstance(problem, Py4JJavaError):
        text = text_of(problem)
        return "SparkContext was shut down" in text or text.endswith(Py4JNetworkError.__name__) or _is_stopped()
    if isinstance(problem, Py4JError) and _answers():
        return False  # an interrupt of another call has cut off its connection
    if isinstance(problem, ConnectionError | Py4JError):
        return True
    return (isinstance(problem, PySparkException) or "java." in text_of(problem)) and _is_stopped()


def _answers() -> bool:
    """Whether Spark runs."""
    from pyspark import SparkContext

    return SparkContext._jvm is not None and not _is_stopped()


def _java_answers() -> bool:
    from pyspark import SparkContext

    java: Any = SparkContext._jvm
    try:
        return java is not None and bool(java.java.lang.System.nanoTime())
    except Exception:
        return False


def _is_stopped() -> bool:
    """Whether Spark has ended or is ending: what fails then, a null pointer for example, follows from that."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    try:
        if context is None or context._jsc is None:
            return SparkContext._jvm is not None  # there was one
        return bool(context._jsc.sc().isStopped())
    except Exception:  # nobody answers
        return True


def ran_out_of_memory(problem: BaseException) -> bool:
    """Whether Java has no memory left. Where that ends Spark, only the exit code of its process says so."""
    if "OutOfMemoryError" in text_of(problem):
        return True
    if not spark_has_ended(problem):
        return False
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(_ENDING) == _OUT_OF_MEMORY
    except subprocess.TimeoutExpired:  # it lives
        return False


def no_space(home: str) -> RunError:
    return RunError(
        f"the disk of {home} is full",
        detail="The tick was not committed; all ticks before it are complete.",
        hint="free some space and run again with the same home: the run resumes where it stopped",
    )
