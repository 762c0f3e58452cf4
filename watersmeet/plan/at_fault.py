"""Failures of the planner itself, confined to the queries that it fails for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from watersmeet.errors import RunError, WatersmeetError
from watersmeet.model import Query, Stream
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.planner import AT_ONCE, make_plan

_log = logging.getLogger("watersmeet")


@contextlib.contextmanager
def planning() -> Iterator[None]:
    """Make any failure inside an error that rejects the request."""
    try:
        yield
    except WatersmeetError:
        raise
    except Exception as problem:
        _log.exception("the planner failed")
        raise RunError(
            f"no plan can be made with this change: {_said(problem)}",
            detail="The queries that run are not concerned.",
            hint="write the query in another way, and please report this",
        ) from None


def queries_at_fault(
    streams: Sequence[Stream], queries: Sequence[Query], options: Options, statistics: Statistics | None = None
) -> dict[str, str]:
    """The queries that the planner fails for even where each is alone, and how; called while a failure is handled."""
    _log.exception("the planner failed")
    found = {}
    for query in queries:
        try:
            make_plan(AT_ONCE, streams, (query,), options, statistics)
        except WatersmeetError:
            continue  # a reason of another kind
        except Exception as problem:
            found[query.name] = f"no plan can be made for it: {_said(problem)}"
    return found


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".rstrip(": ")
