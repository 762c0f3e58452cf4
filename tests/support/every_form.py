"""Windowed queries in every form that they could be computed in, also the slowest, which faster ones make needless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.windowed import kinds_of
from watersmeet.model import Query, Stream
from watersmeet.sql import build_query
from watersmeet.sql import query as lowering
from watersmeet.sql.lower.lowering import DoesNotFit


def in_every_form(name: str, sql: str, streams: Mapping[str, Stream], backfill: bool = False) -> Query:
    """The query with its own forms, the fastest first, and that over the rows of each window."""
    query = build_query(name, sql, streams, backfill=backfill)
    with pytest.MonkeyPatch.context() as patched:
        for fast in ("slice_aggregates", "factorized_aggregates"):
            patched.setattr(lowering, fast, _does_not_fit)
        slow = build_query(name, sql, streams, backfill=backfill)
    others = [form for form in slow.forms or (slow.form,) if form.kind not in kinds_of(query)]
    return replace(query, forms=(*(query.forms or (query.form,)), *others))


def _does_not_fit(*_: Any) -> Any:
    raise DoesNotFit("a test wants another form")
