"""`watersmeet init`: a sample project that runs. It is a small web shop in CSV files, with queries over it."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.arguments import help_text
from watersmeet.cli.errors import reporting
from watersmeet.errors import WatersmeetError

ORDERS = 300
FILES = 3  # for each stream; the pipeline reads one of each a tick
OPENS_AT = datetime(2026, 3, 2, 8, 0, 0)
PRODUCTS = {"kettle": 39, "lamp": 25, "chair": 89, "desk": 240, "rug": 120}

Row = tuple[datetime, Sequence[object]]

KAFKA = ("pipeline.sql", "compose.yaml", "feed.py", "README.md")

HELP = help_text(
    "Write a sample project that runs: a commented pipeline, small data files, a README.",
    examples=("watersmeet init shop", "watersmeet init --kafka shop"),
)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new or empty folder.")],
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Streams and results are topics; with a compose file.")
    ] = False,
) -> None:
    with reporting(None):
        write_sample(folder, kafka)
        commands = (
            ("docker compose up -d", "watersmeet run pipeline.sql")
            if kafka
            else ("watersmeet run pipeline.sql --once",)
        )
        listed = "\n".join(f"  {command}" for command in (f"cd {folder}", *commands))
        typer.echo(f"A sample project is in {folder}. Run it:\n\n{listed}\n")


def write_sample(folder: Path, kafka: bool = False) -> None:
    """Write the project into a new or empty folder; with `kafka`, one whose streams and results are topics."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WatersmeetError(
            f"{folder} exists already and is not an empty folder",
            detail="A sample project never overwrites files.",
            hint="choose another name",
        )
    if kafka:
        folder.mkdir(parents=True, exist_ok=True)
        _copy(folder, KAFKA, "kafka")
        return
    orders, payments, shipments = _history()
    _write_stream(folder / "data" / "orders", ("id", "customer", "product", "amount", "at"), orders)
    _write_stream(folder / "data" / "payments", ("order_id", "method", "amount", "at"), payments)
    _write_stream(folder / "data" / "shipments", ("order_id", "carrier", "at"), shipments)
    _copy(folder, ("pipeline.sql", "README.md"))


def _copy(folder: Path, names: Iterable[str], *below: str) -> None:
    for name in names:
        (folder / name).write_text(resources.files(__name__).joinpath(*below, name).read_text("utf-8"))


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
