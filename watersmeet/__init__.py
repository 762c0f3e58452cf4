"""Watersmeet: many continuous multi-way join queries over shared streams, on Spark, with one shared state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.errors import WatersmeetError
from watersmeet.model import Sink, Source, Stream

if TYPE_CHECKING:
    from watersmeet.engine import Engine
    from watersmeet.handle import QueryHandle

__all__ = ["Engine", "QueryHandle", "Sink", "Source", "Stream", "WatersmeetError"]
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
