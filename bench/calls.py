"""What a call of a registered predicate costs, for a block of 65,536 rows: python -m bench.calls

Seconds are those of a clock, because two processes take part; of several calls the median is shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.runtime.udf.predicate_calls import Calls
from watersmeet.sql.registration import register

ROWS = 1 << 16
TIMES = 21


def measure(function: Callable[..., Any], by_row: bool, arguments: list[pa.Array]) -> tuple[float, float]:
    """Seconds of the first call, and of those that follow."""
    calls, registered = Calls(), register("measured", function, by_row, 60.0)
    seconds = []
    for _ in range(TIMES):
        began = time.perf_counter()
        called = calls.call(registered, arguments)
        seconds.append(time.perf_counter() - began)
        assert not called.failed, calls.complaints
    return seconds[0], statistics.median(seconds[1:])


def main() -> None:
    rng = np.random.default_rng(1)
    numbers = [pa.array(rng.integers(0, 1000, ROWS)) for _ in range(2)]
    texts = [pa.array([f"name {value}" for value in column.to_pylist()]) for column in numbers]
    cases = (
        ("numbers, at once", lambda x, y: np.abs(x - y) <= 2, False, numbers),
        ("numbers, by row", lambda x, y: abs(x - y) <= 2, True, numbers),
        ("texts, at once", lambda x, y: x == y, False, texts),
        ("texts, by row", lambda x, y: x == y, True, texts),
    )
    for title, function, by_row, arguments in cases:
        first, later = measure(function, by_row, arguments)
        print(f"{title:20} first {first * 1e3:8.1f} ms, later {later * 1e3:8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
