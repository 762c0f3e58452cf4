"""What ticks need of the active plan."""

from __future__ import annotations

from typing import Protocol

from watersmeet.model import Query, Stream
from watersmeet.plan.ruleset import Ruleset


class ActivePlan(Protocol):
    """What ticks follow from the next one on; replaced as a whole, never changed."""

    @property
    def rules(self) -> Ruleset: ...

    @property
    def streams(self) -> tuple[Stream, ...]: ...

    @property
    def queries(self) -> tuple[Query, ...]: ...

    @property
    def windowed(self) -> tuple[Query, ...]: ...

    @property
    def suspended(self) -> tuple[Query, ...]:
        """Suspended queries, for which there are no rules; their streams are stored."""
