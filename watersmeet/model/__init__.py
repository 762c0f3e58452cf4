"""Immutable values that validate themselves: streams, queries, types."""

from watersmeet.model.predicate import CROSS, Band, Predicate, Registered, Theta
from watersmeet.model.query import Alias, Equality, KeyPart, Output, Query, Sink, member_column
from watersmeet.model.stream import Column, Source, Stream

__all__ = [
    "CROSS",
    "Alias",
    "Band",
    "Column",
    "Equality",
    "KeyPart",
    "Output",
    "Predicate",
    "Query",
    "Registered",
    "Sink",
    "Source",
    "Stream",
    "Theta",
    "member_column",
]
