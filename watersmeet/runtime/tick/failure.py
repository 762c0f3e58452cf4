"""Turns any failure of a tick into an error with a hint."""

from __future__ import annotations

import errno
from pathlib import Path

from watersmeet.errors import RunError, WatersmeetError


def explain_failure(problem: BaseException, home: Path) -> WatersmeetError:
    if isinstance(problem, WatersmeetError):
        return problem
    text = str(problem)
    if (isinstance(problem, OSError) and problem.errno == errno.ENOSPC) or "No space left on device" in text:
        return no_space(str(home))
    if spark_has_ended(problem):
        return RunError(
            "Spark's Java process has ended",
            detail="The running tick was not committed; all ticks before it are complete.",
            hint=f"check spark.driver.memory and run again with the same home {home}: the run resumes there",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line or line.startswith("[")]
    return RunError(
        "a tick failed; nothing of it was committed, and the next run repeats it",
        detail=(telling or lines or [type(problem).__name__])[0][:500],
        hint=f"correct the cause and run again with the same home {home}",
    )


def spark_has_ended(problem: BaseException) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(problem, ConnectionError | Py4JError) and not isinstance(problem, Py4JJavaError)


def no_space(home: str) -> RunError:
    return RunError(
        f"the disk of {home} is full",
        detail="The tick was not committed; all ticks before it are complete.",
        hint="free some space and run again with the same home: the run resumes where it stopped",
    )
