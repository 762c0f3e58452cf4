"""The rows of the advertising workload: impressions by a million persons on thousands of sites, and their clicks.

`impressions` (ts, id, person, site, campaign, price) and `clicks` (ts, impression, cost), one file for each tick of one
second. Persons, sites and campaigns are drawn by Zipf's law: a few are seen all the time, and most hardly ever. A third
of the impressions are clicked within the next seconds, each at most once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.windows.advertising import MICROS

PERSONS, SITES, CAMPAIGNS = 1_000_000, 5_000, 1_000
CLICKED = 0.33


def write_rows(folder: Path, ticks: int, rows: int, seed: int = 28, fan_out: int = 1, persons: int = PERSONS) -> None:
    """`fan_out`: so many impressions have the same id, and so many clicks too."""
    chance = np.random.default_rng(seed)
    for name in ("impressions", "clicks"):
        (folder / name).mkdir(parents=True)
    letters = np.array(list("abcdefghij"))
    sites = np.array([f"{letters[at % 10]}{letters[at // 10 % 10]}-site-{at}" for at in range(SITES)])
    pending_at, pending_of = np.empty(0, np.int64), np.empty(0, np.int64)
    for tick in range(ticks):
        begin, end = tick * MICROS, (tick + 1) * MICROS
        at = np.sort(chance.integers(begin, end, rows))
        at[-1] = end - 1  # so that each tick closes the same windows in every system
        ids = np.arange(tick * rows, (tick + 1) * rows) // fan_out
        impressions = {
            "ts": _instants(at),
            "id": ids,
            "person": _zipf(chance, persons, rows),
            "site": sites[_zipf(chance, SITES, rows)],
            "campaign": _zipf(chance, CAMPAIGNS, rows).astype(np.int32),
            "price": chance.integers(1, 1000, rows),
        }
        pq.write_table(pa.table(impressions), folder / "impressions" / f"{tick:06d}.parquet")
        clicked = chance.random(rows) < CLICKED
        after = chance.exponential(1.5 * MICROS, rows).astype(np.int64) + 1
        pending_at = np.concatenate((pending_at, (at + after)[clicked]))
        pending_of = np.concatenate((pending_of, ids[clicked]))
        now = pending_at < end
        order = np.argsort(pending_at[now], kind="stable")
        click_at, of = pending_at[now][order], pending_of[now][order]
        pending_at, pending_of = pending_at[~now], pending_of[~now]
        click_at[-1:] = end - 1
        clicks = {"ts": _instants(click_at), "impression": of, "cost": chance.integers(1, 100, len(of))}
        pq.write_table(pa.table(clicks), folder / "clicks" / f"{tick:06d}.parquet")


def _instants(micros: np.ndarray) -> pa.Array:
    return pa.array(micros, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


def _zipf(chance: np.random.Generator, count: int, rows: int) -> np.ndarray:
    """Numbers below `count`, number i about as often as 1 / (i + 1)."""

    drawn = np.exp(chance.random(rows) * np.log(count + 1)).astype(np.int64) - 1
    found: np.ndarray = np.minimum(drawn, count - 1)
    return found
