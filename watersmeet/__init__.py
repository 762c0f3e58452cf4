"""Watersmeet: many continuous multi-way join queries over shared streams, on Spark, with one shared state."""

from watersmeet.engine import Engine
from watersmeet.errors import WatersmeetError
from watersmeet.handle import QueryHandle
from watersmeet.model import Sink, Source, Stream

__all__ = ["Engine", "QueryHandle", "Sink", "Source", "Stream", "WatersmeetError"]
__version__ = "0.1.0"
