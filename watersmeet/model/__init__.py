"""Immutable values that validate themselves: streams, queries, expressions, types."""

from watersmeet.model.expression import ColumnRef, Expression, member_column
from watersmeet.model.join import Alias, JoinForm, Leaf, Output
from watersmeet.model.predicate import CROSS, Band, Equality, KeyPart, Predicate, Registered, Theta
from watersmeet.model.query import Query, Sink
from watersmeet.model.spark_call import HIDDEN, SparkCall
from watersmeet.model.stream import CORRUPT_COLUMN, Column, Source, Stream

__all__ = [
    "CORRUPT_COLUMN",
    "CROSS",
    "HIDDEN",
    "Alias",
    "Band",
    "Column",
    "ColumnRef",
    "Equality",
    "Expression",
    "JoinForm",
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
    "member_column",
]
