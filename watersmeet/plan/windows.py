"""What windowed queries add to a plan. No search is needed for them: what they share follows from what they ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from watersmeet.model import Query, Stream
from watersmeet.model.forms import WindowSql
from watersmeet.plan.ruleset import Ruleset
from watersmeet.plan.slices import Slices


def with_windows(rules: Ruleset, windowed: Sequence[Query], slices: Slices) -> Ruleset:
    """The rules with those of windowed queries."""
    readings = tuple(sorted(slices.readings.items()))
    stores = tuple(replace(store, partitions=rules.partitions) for store in slices.stores)
    made = replace(rules, windowed=tuple(query.definition for query in windowed), slices=stores, readings=readings)
    identity = f"{rules.version} {made.windowed!r} {[store.name for store in made.slices]}"
    return replace(made, version=hashlib.sha256(identity.encode()).hexdigest()[:16])


def stored_for_batches(queries: Iterable[Query], streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """The streams as they have to be stored for queries whose windows are computed from rows."""
    return with_all_rows(
        {name for query in queries if isinstance(query.form, WindowSql) for name in query.streams}, streams
    )


def with_all_rows(names: set[str], streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """A stream that is retained, however shortly, has a store with every row; how long rows stay, ticks decide."""
    return tuple(replace(s, retain=1) if s.name in names and s.retain == 0 else s for s in streams)
