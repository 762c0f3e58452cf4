"""How fast tasks read, decode and store JSON of five columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bench.kafka.streams import EPOCH, iso, send
from bench.pipeline import run_pipeline
from tests.support.brokers.kafka import KafkaBroker
from watersmeet.home.tick_log import recent_ticks

_TICKS, _WARM_UP = 10, 2  # the first ones compile and connect
_WANTED = 1_000  # one row in so many has a partner


@dataclass(frozen=True)
class Reading:
    rows: int
    seconds: float
    cpu: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def reading(broker: KafkaBroker, folder: Path, rows: int) -> Reading:
    """By the clock, over all ticks but the first ones: also the joins and commits of these ticks."""
    folder.mkdir()
    rows -= rows % (_TICKS * _WANTED)
    texts = [
        json.dumps(
            {"ts": iso(EPOCH + at), "id": at, "a": at % _WANTED, "price": at / 7, "name": f"item {at % 999}"}
        ).encode()
        for at in range(rows)
    ]
    send(broker, "wide", texts)
    script = (
        "CREATE STREAM w (ts TIMESTAMP, id BIGINT, a BIGINT, price DOUBLE, name STRING) TIMESTAMP BY ts "
        f"LATENESS INTERVAL '10' SECOND FROM kafka 'wide' WITH ('bootstrap.servers' = '{broker.address}', "
        f"maxRowsPerTick = {rows // _TICKS});"
        "CREATE QUERY n INTO count AS SELECT x.id, x.price, x.name, y.price AS p, y.name AS o "
        "FROM w [RANGE 1 SECOND] x, w [RANGE 1 SECOND] y WHERE x.id = y.id AND x.a = 1 AND y.a = 1;"
    )
    measured = run_pipeline(script, folder / "home")
    ticks = recent_ticks(folder / "home")
    read, wanted = sum(tick.rows for tick in ticks), rows // _WANTED
    assert read == rows, f"{read:,} of {rows:,} rows were read"
    assert measured.results == wanted, f"{measured.results:,} results instead of {wanted:,}"
    begin, end = ticks[_WARM_UP - 1].finished_at, ticks[-1].finished_at
    counted = sum(tick.rows for tick in ticks[_WARM_UP:])
    return Reading(counted, end - begin, measured.observed.cpu_within(begin, end))
