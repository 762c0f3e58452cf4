"""What is true of a workload's data, for plans that are compared: all forms of Watersmeet know it before they begin.

Without that, a plan that does not change is made for streams of equal size with one partner for each row. In use the
engine measures this itself and adapts; here the same plan is kept for all ticks, so that the plan is measured.
"""

from __future__ import annotations

from typing import Any

from bench.peers import duck
from bench.workloads.model import Workload


def statistics(workload: Workload) -> dict[str, Any]:
    """Sizes of the streams with full history, and the share of pairs that each equality keeps."""
    rows = workload.counted()
    connection = duck.connect(workload)
    pairs: dict[tuple[str, str], float] = {}
    for query in workload.queries:
        stream = {table.alias: table.stream for table in query.tables}
        for equality in query.equalities:
            left, right = sorted(f"{stream[alias]}.{column}" for alias, column in (end.split(".") for end in equality))
            one, other = left.split(".")[0], right.split(".")[0]
            if (left, right) not in pairs and one != other:
                found = connection.execute(f"SELECT count(*) FROM {one}, {other} WHERE {left} = {right}").fetchone()
                pairs[left, right] = max(0.5, found[0] if found else 0) / (rows[one] * rows[other])
    ticks = workload.ticks
    return {
        "sizes": rows,
        "arrivals": {name: count / ticks for name, count in rows.items()},
        "selectivities": [{"left": left, "right": right, "value": value} for (left, right), value in pairs.items()],
    }
