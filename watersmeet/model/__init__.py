"""Immutable values that validate themselves: streams, queries, types."""

from watersmeet.model.query import Alias, Equality, KeyPart, Output, Query, Sink, member_column
from watersmeet.model.stream import Column, Source, Stream

__all__ = ["Alias", "Column", "Equality", "KeyPart", "Output", "Query", "Sink", "Source", "Stream", "member_column"]
