"""What a plan knows of the operators of windows: each plans the queries whose form it takes.

An operator is a folder of this package. Its files lie in several layers:

    plan.py    a `Planning`: what the plan gets for its queries (this module)
    tick.py    orders, and a `Ticking`: which of them a tick gives to tasks (working.py)
    task.py    a `Working`: how tasks take rows in and execute these orders (working.py)
    spark.py   only where the driver has to start jobs of Spark: a `Driving` (drivers.py)

Planner, tick, loop and worker know operators by these protocols and by the tables `table.py`, `workers.py` and
`drivers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from watersmeet.model import Query
from watersmeet.model.forms import Form
from watersmeet.plan.ruleset import WindowRule
from watersmeet.store.placement import Store
from watersmeet.windows.costs import TickFacts, WindowCosts

Origins = Mapping[str, Any]  # by store of windows, what it was made for; an operator keeps it from plan to plan


@dataclass(frozen=True)
class Planned:
    """What the windowed queries of a plan add to it."""

    rules: tuple[WindowRule, ...] = ()
    stores: tuple[Store, ...] = ()
    origins: Origins = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)  # by query that has several, suspended or not, its kind
    leaving: Mapping[str, str] = field(default_factory=dict)  # by query that changes its form, the kind it had before

    @property
    def remembered(self) -> StoredWindows:
        """What the home remembers of it."""
        return StoredWindows(self.origins, forms=self.forms, leaving=self.leaving)

    @classmethod
    def of(cls, parts: Iterable[Planned]) -> Planned:
        """What several operators add together."""
        found = list(parts)
        return cls(
            tuple(rule for part in found for rule in part.rules),
            tuple({store.name: store for part in found for store in part.stores}.values()),
            {name: origin for part in found for name, origin in part.origins.items()},
        )


@dataclass(frozen=True)
class StoredWindows:
    """What the home has: the origins of its stores, from which event time on each store has all rows, and forms.

    `has_first_forms`: it was written when queries had one form each. `answered` are queries with open windows."""

    origins: Origins = field(default_factory=dict)
    complete: Mapping[str, int] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    leaving: Mapping[str, str] = field(default_factory=dict)
    has_first_forms: bool = False
    answered: frozenset[str] = frozenset()

    def joined(self, later: StoredWindows) -> StoredWindows:
        """These origins and forms, and those of a later plan."""
        return replace(
            self,
            origins={**self.origins, **later.origins},
            forms={**self.forms, **later.forms},
            leaving={**self.leaving, **later.leaving},
        )

    def changed(self, wanted: Mapping[str, str]) -> StoredWindows:
        """The same where these queries get forms of these kinds. A query that is leaving a form keeps the one that it
        changes to."""
        new = {query: kind for query, kind in wanted.items() if query not in self.leaving}
        left = {query: self.forms[query] for query in new if self.forms.get(query, new[query]) != new[query]}
        return replace(self, forms={**self.forms, **new}, leaving={**self.leaving, **left})


class Planning(Protocol):
    """The part of an operator that plans."""

    @property
    def name(self) -> str: ...

    @property
    def needs_spark(self) -> bool:
        """Whether its windows are computed by jobs of Spark."""

    @property
    def reads_rows(self) -> bool:
        """Whether windows are computed from the rows of their streams, so that every row is stored."""

    def takes(self, form: Form) -> bool:
        """Whether the operator can compute queries of a form."""

    def in_words(self, form: Form) -> str:
        """How windows are computed, for `explain`."""

    def planned(self, queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
        """What queries of such forms add to a plan, all of them together."""

    def cost(self, rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
        """What the windows of such rules cost in a tick, all of them together; what they share is divided."""
