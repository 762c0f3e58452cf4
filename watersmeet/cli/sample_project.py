"""The sample project that `watersmeet init` writes: a small web shop in CSV files, and queries over it."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from watersmeet.errors import WatersmeetError

ORDERS = 300
FILES = 3  # for each stream; the pipeline reads one of each a tick
OPENS_AT = datetime(2026, 3, 2, 8, 0, 0)
PRODUCTS = {"kettle": 39, "lamp": 25, "chair": 89, "desk": 240, "rug": 120}

PIPELINE = """\
-- A web shop. Three streams of CSV files, and queries that join them while new files arrive.
-- Paths are relative to this file.

CREATE STREAM orders (id BIGINT, customer BIGINT, product STRING, amount DECIMAL(10, 2), at TIMESTAMP)
  TIMESTAMP BY at              -- the column that says when a row happened
  LATENESS 10 MINUTES          -- how far behind the newest row a row may come
  FROM csv 'data/orders' WITH (header = true, maxFilesPerTrigger = 1);

CREATE STREAM payments (order_id BIGINT, method STRING, amount DECIMAL(10, 2), at TIMESTAMP)
  TIMESTAMP BY at LATENESS 10 MINUTES
  FROM csv 'data/payments' WITH (header = true, maxFilesPerTrigger = 1);

CREATE STREAM shipments (order_id BIGINT, carrier STRING, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 10 MINUTES
  FROM csv 'data/shipments' WITH (header = true, maxFilesPerTrigger = 1);

-- Orders of 200 or more, paid within half an hour. The windows say how long a row waits for its partners.
-- INTO writes the results where you want them; without it they are Parquet files in the home folder.
CREATE QUERY big_orders INTO csv 'results/big_orders' AS
SELECT o.id, o.customer, o.product, o.amount, p.method, p.at AS paid_at
FROM orders [RANGE 30 MINUTES] o, payments [RANGE 30 MINUTES] p
WHERE o.id = p.order_id AND o.amount >= 200;

-- Ordered, paid and shipped: three streams. It shares the kept orders and payments with big_orders.
CREATE QUERY delivered AS
SELECT o.id, o.product, p.method, s.carrier, o.at AS ordered_at, s.at AS shipped_at
FROM orders [RANGE 2 HOURS] o, payments [RANGE 2 HOURS] p, shipments [RANGE 2 HOURS] s
WHERE o.id = p.order_id AND o.id = s.order_id;

-- Paid twice: the same stream under two names.
CREATE QUERY paid_twice AS
SELECT card.order_id, card.amount, card.at AS by_card_at, voucher.at AS by_voucher_at
FROM payments [RANGE 1 HOUR] card, payments [RANGE 1 HOUR] voucher
WHERE card.order_id = voucher.order_id AND card.method = 'card' AND voucher.method = 'voucher';
"""

README = """\
# A sample pipeline for Watersmeet

`pipeline.sql` declares three streams (CSV files under `data/`) and three queries that join them.

    watersmeet check pipeline.sql         # is everything in it right? takes a second
    watersmeet explain pipeline.sql       # what is kept, and which steps the queries share
    watersmeet run pipeline.sql --once    # process all that is there, then end

The results:

    head results/big_orders/*.csv
    python -c "import duckdb; duckdb.sql(\\"FROM 'watersmeet-home/results/delivered/*.parquet' LIMIT 5\\").show()"

Without `--once` it waits for more. Start it, and put a new file there from another terminal:

    watersmeet run pipeline.sql
    printf 'id,customer,product,amount,at\\n9001,7,desk,480.00,2026-03-02T13:00:00\\n' > data/orders/new.csv
    printf 'order_id,method,amount,at\\n9001,card,480.00,2026-03-02T13:05:00\\n' > data/payments/new.csv

`big_orders` has one result more. Ctrl-C ends it after the running tick; the next `run` goes on where it stopped,
because everything it knows is in `watersmeet-home`. To begin anew, remove that folder and `results`.
"""

Row = tuple[datetime, Sequence[object]]


def write_sample(folder: Path) -> None:
    """Write the project into a new or empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WatersmeetError(
            f"{folder} is there already, and it is not an empty folder",
            detail="A sample project never writes over anything.",
            hint="give another name",
        )
    orders, payments, shipments = _history()
    _write_stream(folder / "data" / "orders", ("id", "customer", "product", "amount", "at"), orders)
    _write_stream(folder / "data" / "payments", ("order_id", "method", "amount", "at"), payments)
    _write_stream(folder / "data" / "shipments", ("order_id", "carrier", "at"), shipments)
    (folder / "pipeline.sql").write_text(PIPELINE)
    (folder / "README.md").write_text(README)


def _history() -> tuple[list[Row], list[Row], list[Row]]:
    """Some hours of the shop, the same every time."""
    chance = random.Random(17)
    orders: list[Row] = []
    payments: list[Row] = []
    shipments: list[Row] = []
    at = OPENS_AT
    for number in range(1, ORDERS + 1):
        at += timedelta(seconds=chance.randint(5, 90))
        product = chance.choice(list(PRODUCTS))
        amount = f"{PRODUCTS[product] * chance.randint(1, 4)}.00"
        orders.append((at, (number, chance.randint(1, 60), product, amount)))
        if chance.random() < 0.1:
            continue  # never paid
        paid = at + timedelta(minutes=chance.randint(1, 50))
        method = chance.choice(("card", "card", "voucher", "transfer"))
        payments.append((paid, (number, method, amount)))
        if method == "card" and chance.random() < 0.1:
            payments.append((paid + timedelta(minutes=chance.randint(1, 20)), (number, "voucher", amount)))
        if chance.random() < 0.8:
            shipped = paid + timedelta(minutes=chance.randint(10, 90))
            shipments.append((shipped, (number, chance.choice(("Pigeon Post", "Tortoise Express")))))
    return orders, payments, shipments


def _write_stream(folder: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    folder.mkdir(parents=True)
    ordered = sorted(rows, key=lambda row: row[0])
    # Cut at the same times in every stream, so that files which are read together belong together.
    span = (ordered[-1][0] - OPENS_AT) / FILES
    for number in range(FILES):
        begin, end = OPENS_AT + number * span, OPENS_AT + (number + 1) * span
        with (folder / f"part-{number + 1}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows((*row, at.isoformat()) for at, row in ordered if begin < at <= end)
