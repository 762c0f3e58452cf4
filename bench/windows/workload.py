"""Aggregations over sliding windows of one stream, and their text for each system. Peers in other environments import
this file too: it needs nothing but Python."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass

MICROS = 1_000_000
FUNCTIONS = ("COUNT(*)", "SUM(x)", "MIN(x)", "MAX(x)", "AVG(x)")


@dataclass(frozen=True)
class Aggregation:
    """`value` by k, for windows of `range` seconds that begin every `slide` seconds."""

    name: str
    range: int
    slide: int
    value: str

    def watersmeet(self) -> str:
        return (
            f"CREATE QUERY {self.name} AS SELECT window_start AS w, k, {self.value} AS v "
            f"FROM r [RANGE {self.range} SECONDS SLIDE {self.slide} SECONDS] GROUP BY k;\n"
        )

    def flink(self) -> str:
        hop = f"HOP(TABLE r, DESCRIPTOR(rt), INTERVAL '{self.slide}' SECOND(3), INTERVAL '{self.range}' SECOND(3))"
        value = self.value.replace("AVG(x)", "AVG(CAST(x AS DOUBLE))")
        start = "UNIX_TIMESTAMP(DATE_FORMAT(window_start, 'yyyy-MM-dd HH:mm:ss')) * 1000000"
        return (
            f"SELECT {start} AS w, k, CAST({value} AS DOUBLE) AS v FROM TABLE({hop}) "
            "GROUP BY window_start, window_end, k"
        )

    def duckdb(self, newest: int) -> str:
        """The windows that end at or before the newest event time; rows are in `r`."""
        width, slide = self.range * MICROS, self.slide * MICROS
        steps = f"generate_series(0, {self.range // self.slide - 1})"
        return (
            f"SELECT w, k, {self.value} AS v FROM (SELECT k, x, (t // {slide}) * {slide} - unnest({steps}) * {slide} "
            f"AS w FROM (SELECT epoch_us(ts) AS t, k, x FROM r)) WHERE w + {width} <= {newest} GROUP BY w, k"
        )


@dataclass(frozen=True)
class Workload:
    """`folder` has a file for each tick of one second in r/ (Parquet) and in csv/."""

    folder: str
    ticks: int
    rows: int  # of a tick
    aggregations: tuple[Aggregation, ...]

    @property
    def newest(self) -> int:
        """The largest event time, which every input has."""
        return self.ticks * MICROS - 1

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Workload:
        made = json.loads(text)
        made["aggregations"] = tuple(Aggregation(**each) for each in made["aggregations"])
        return Workload(**made)


def sliding_sum() -> tuple[Aggregation, ...]:
    return (Aggregation("q0", 60, 1, "SUM(x)"),)


def drawn(count: int, seed: int = 15) -> tuple[Aggregation, ...]:
    """Ranges are multiples of slides, because Flink has no others."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        slide = chance.randint(1, 10)
        made.append(Aggregation(f"q{number}", slide * chance.randint(1, 12), slide, chance.choice(FUNCTIONS)))
    return tuple(made)
