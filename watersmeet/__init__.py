"""Watersmeet: many continuous multi-way join queries over shared streams, on Spark, with one shared state.

The examples of this package go on from this one. `spark` is a session of your own; with `executor="local"` ticks run in
this process and not in Spark's tasks, which is enough for three rows.

Example:
    >>> import pandas, watersmeet
    >>> from pathlib import Path
    >>> at = pandas.to_datetime(["2026-01-01 10:00:00", "2026-01-01 10:00:04", "2026-01-01 10:00:07"])
    >>> Path("bids").mkdir()
    >>> pandas.DataFrame({"at": at, "auction": [1, 2, 1], "price": [10, 7, 25]}).to_parquet("bids/1.parquet")
    >>> engine = watersmeet.Engine(spark, home="home", executor="local")
    >>> engine.sql('''
    ...     CREATE STREAM bids (at TIMESTAMP, auction BIGINT, price BIGINT) TIMESTAMP BY at FROM parquet 'bids';
    ...     CREATE QUERY rises AS
    ...         SELECT x.auction, x.price AS before, y.price AS after
    ...         FROM bids [RANGE 10 SECONDS] x, bids [RANGE 10 SECONDS] y
    ...         WHERE x.auction = y.auction AND y.price > 2 * x.price;
    ... ''')
    [<Query rises: bids x ⋈ bids y>]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.errors import WatersmeetError
from watersmeet.model import Column, Sink, Source, Stream

if TYPE_CHECKING:
    from watersmeet.engine import Engine
    from watersmeet.handle import QueryHandle

__all__ = ["Column", "Engine", "QueryHandle", "Sink", "Source", "Stream", "WatersmeetError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What tasks do not need is imported when it is asked for, so that they start faster."""
    if name == "Engine":
        from watersmeet.engine import Engine

        return Engine
    if name == "QueryHandle":
        from watersmeet.handle import QueryHandle

        return QueryHandle
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """For completion: also what is not imported yet."""
    return sorted({*globals(), *__all__})
