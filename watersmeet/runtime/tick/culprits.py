"""Which queries a tick cannot be made with, where nothing names them: a process has ended, and nobody knows for whom.

The tick is tried without some of the queries, and nothing of it is committed. With the queries in a row, a culprit is
the last one of the shortest beginning of the row without which the tick succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def culprits(suspects: Sequence[str], succeeds: Callable[[frozenset[str]], bool]) -> set[str] | None:
    """The queries that are at fault for a tick that has failed with all of them; none, if it fails without them too.
    None: it succeeds with all of them now. `succeeds` tries the tick without some queries."""
    found: set[str] = set()
    if succeeds(frozenset()):
        return None
    if not suspects or not succeeds(frozenset(suspects)):
        return found
    while suspects and not (found and succeeds(frozenset(found))):
        fails, passes = 0, len(suspects)  # lengths of beginnings of the row
        while passes - fails > 1:
            middle = (fails + passes) // 2
            if succeeds(frozenset((*found, *suspects[:middle]))):
                passes = middle
            else:
                fails = middle
        found.add(suspects[passes - 1])
        suspects = suspects[: passes - 1]
    return found
