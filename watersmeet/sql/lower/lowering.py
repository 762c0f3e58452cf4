"""What resolved queries are lowered with, and how a form says that a query does not fit it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from watersmeet.model import Stream
from watersmeet.sql.bind import ExpressionCheck
from watersmeet.sql.resolve.resolve import Resolver
from watersmeet.sql.site import Site
from watersmeet.sql.windows import WindowClauses


class DoesNotFit(Exception):
    """Why a query cannot be computed in a certain form: a sentence without its end."""


@dataclass(frozen=True)
class Lowering:
    """The text of a query, what the resolver knows of it, and the check of expressions."""

    site: Site
    check: ExpressionCheck
    resolver: Resolver
    clauses: WindowClauses
    streams: Mapping[str, Stream]
