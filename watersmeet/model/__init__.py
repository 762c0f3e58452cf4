"""Immutable values that validate themselves: streams, queries, expressions, types."""

from watersmeet.model.expression import ColumnRef, Expression, member_column
from watersmeet.model.predicate import CROSS, Band, Equality, KeyPart, Predicate, Registered, Theta
from watersmeet.model.query import Alias, Leaf, Output, Query, Sink
from watersmeet.model.spark_call import HIDDEN, SparkCall
from watersmeet.model.stream import CORRUPT_COLUMN, Column, Source, Stream
from watersmeet.model.windowed import WindowedQuery

AnyQuery = Query | WindowedQuery

__all__ = [
    "CORRUPT_COLUMN",
    "CROSS",
    "HIDDEN",
    "Alias",
    "AnyQuery",
    "Band",
    "Column",
    "ColumnRef",
    "Equality",
    "Expression",
    "KeyPart",
    "Leaf",
    "Output",
    "Predicate",
    "Query",
    "Registered",
    "Sink",
    "Source",
    "SparkCall",
    "Stream",
    "Theta",
    "WindowedQuery",
    "member_column",
]
