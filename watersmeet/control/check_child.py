"""The handler of the process that checks requests, for `runtime/child_main.py`."""

from __future__ import annotations

from watersmeet.control.changes import Change, read_changes
from watersmeet.errors import WatersmeetError
from watersmeet.pipeline import Pipeline
from watersmeet.store.guard import memory

MEGABYTES = 2048


def answer(request: tuple[str, str, str, Pipeline]) -> tuple[Change, ...] | WatersmeetError:
    """The changes that a request asks for, or the error with all of its parts."""
    memory.limit(MEGABYTES)
    try:
        return read_changes(*request)
    except WatersmeetError as problem:
        return problem
    except MemoryError:
        return WatersmeetError("the check takes too much memory", hint="make the query simpler")
