"""Settings of plans that experiments of the papers compare. No engine of a user has other values than these."""

from __future__ import annotations

from dataclasses import dataclass

IN_TURN = "in turn"


@dataclass(frozen=True)
class Research:
    """`Engine(research=Research(…))`, for programs under bench/ and tests; no option, no command line has it."""

    layouts: str = "one"  # of a store: one, many (a running engine uses the first), or ignored: no probe is a broadcast
    parallelism: str = "chosen"  # partitions of a store that no equality leads to: as many as pay off, or all
    costs: str = "seconds"  # plans are compared by CPU time, or as in the papers (paper) by the tuples sent
    sharing: str = "groups"  # steps of a class: shared in groups of 64 queries, by all of them, or by none
    form: str = ""  # of windowed queries that have it, by its kind; in turn: the next one after each epoch
