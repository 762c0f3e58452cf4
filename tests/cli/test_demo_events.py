"""The demo's events and the thread that writes them, without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.waiting import join
from watersmeet.cli.demo.events import EPOCH, FIRST_ID, AuctionSite
from watersmeet.cli.demo.feeder import HISTORY, Feeder

SITE = AuctionSite(1_700_000_000_000_000, 2000)


def test_any_part_of_the_history_can_be_made_alone() -> None:
    whole = SITE.tables(0, 40 * EPOCH)
    pieces = [SITE.tables(begin, begin + 7) for begin in range(0, 40 * EPOCH, 7)]
    for stream, rows in whole.items():
        assert pa.concat_tables([piece[stream] for piece in pieces])[: rows.num_rows].equals(rows)


def test_proportions_and_ids() -> None:
    tables = SITE.tables(0, 1000 * EPOCH)
    assert {name: rows.num_rows for name, rows in tables.items()} == {"persons": 1000, "auctions": 3000, "bids": 46000}
    assert tables["persons"]["id"].to_pylist() == list(range(FIRST_ID, FIRST_ID + 1000))
    assert tables["auctions"]["id"].to_pylist() == list(range(FIRST_ID, FIRST_ID + 3000))
    assert set(tables["auctions"]["category"].to_pylist()) == {10, 11, 12, 13, 14}
    assert set(tables["persons"]["state"].to_pylist()) == {"AZ", "CA", "ID", "OR", "WA", "WY"}


def test_some_are_popular_and_independently_so() -> None:
    bids = SITE.tables(0, 2000 * EPOCH)["bids"]
    auction = np.asarray(bids["auction"]) % 100 == 0
    bidder = np.asarray(bids["bidder"]) % 100 == 1
    assert 0.48 < auction.mean() < 0.53
    assert 0.73 < bidder.mean() < 0.78
    assert abs((auction & bidder).mean() - auction.mean() * bidder.mean()) < 0.01


def test_prices_are_spread_over_six_powers_of_ten() -> None:
    prices = np.log10(np.asarray(SITE.tables(0, 1000 * EPOCH)["bids"]["price"]))
    assert prices.min() >= 2
    assert prices.max() <= 8
    assert abs(np.median(prices) - 5) < 0.1


def test_times_and_numbers_agree() -> None:
    for number in (0, 1, 777, 123_457):
        assert SITE.first_at(SITE.time_of(number)) == number
        assert SITE.first_at(SITE.time_of(number) + 1) == number + 1


def test_feeder_writes_each_event_once_and_knows_when(tmp_path: Path) -> None:
    feeder = Feeder(tmp_path, rate=400, seconds=1.2)
    feeder.write_history()
    feeder.start()
    join(feeder)
    assert feeder.failure is None
    assert not [*(tmp_path / "_drafts").iterdir()], "nothing is left half done"
    rows = {stream: pq.read_table(tmp_path / stream) for stream in ("persons", "auctions", "bids")}
    events = HISTORY + int(400 * 1.2)
    assert sum(table.num_rows for table in rows.values()) == events
    assert {stream: max(table["at"].cast(pa.int64()).to_pylist()) for stream, table in rows.items()} == feeder.newest

    times = np.sort(np.asarray(rows["bids"]["at"].cast(pa.int64())))
    arrivals = feeder.arrival(times)
    before_the_clock = np.isnan(arrivals)
    assert before_the_clock.sum() == HISTORY // EPOCH * 46
    later = arrivals[~before_the_clock]
    assert (np.diff(later) >= 0).all()
    assert later[0] > feeder.started_at


def test_feeder_ends_when_told(tmp_path: Path) -> None:
    feeder = Feeder(tmp_path, rate=100, seconds=3600)
    feeder.start()
    feeder.finish()
    assert not feeder.is_alive()
