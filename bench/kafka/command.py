"""`bench/run kafka`: three parts, each of which can be run alone, on a broker of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.kafka.join import Join, joins
from bench.kafka.latency import Latency, latencies
from bench.kafka.reading import reading
from bench.report import write_json
from bench.scratch import in_scratch
from tests.support.brokers.kafka import KafkaBroker, running_broker

PARTS = ("join", "reading", "latency")


def kafka(
    parts: Annotated[list[str], typer.Option("--part", help=f"of {', '.join(PARTS)}")] = list(PARTS),  # noqa: B006
    rows: Annotated[int, typer.Option(help="rows of each stream; four times as many are read")] = 500_000,
    seconds: Annotated[int, typer.Option(help="how long rows arrive, for the latency")] = 30,
    peers: Annotated[str, typer.Option(help="systems to compare with, of spark and flink, or none")] = "spark flink",
) -> None:
    """From Kafka to Kafka, JSON: a three-way join, reading, and the latency at 5,000 rows/s; all results checked."""
    systems = ["ours", *(peer for peer in peers.split() if peer != "none")]

    for part in parts:

        def work(folder: Path, part: str = part) -> Any:
            # Event times are far from the broker's clock.
            with running_broker(folder / "broker", log_message_timestamp_after_max_ms=str(2**62)) as broker:
                return _part(part, broker, folder / part, rows, seconds, systems)

        write_json(f"kafka-{part}", {"figures": in_scratch(work)})


def _part(part: str, broker: KafkaBroker, folder: Path, rows: int, seconds: int, systems: list[str]) -> Any:
    if part == "join":
        folder.mkdir()
        return _show_joins(joins(broker, folder, rows, systems))
    if part == "reading":
        one = reading(broker, folder, 4 * rows)
        cpu = one.cpu / one.rows * 1e6
        print(f"reading JSON of 5 columns: {one.rows_per_second:,.0f} rows/s, {cpu:.2f} CPU s per million rows")
        return {**asdict(one), "rows_per_second": one.rows_per_second}
    if part == "latency":
        return _show_latencies(latencies(broker, folder, seconds, [one for one in systems if one != "flink"]))
    raise typer.BadParameter(f"{part} is not one of {', '.join(PARTS)}")


def _show_joins(found: Sequence[Join]) -> list[dict[str, Any]]:
    table = Table("system", "rows/s", "first ÷ this", "CPU s per million rows", "results", title="three-way join")
    for one in found:
        times = found[0].rows_per_second / one.rows_per_second
        cpu = one.cpu / one.rows * 1e6
        table.add_row(one.system, f"{one.rows_per_second:,.0f}", f"{times:.2f} ×", f"{cpu:.1f}", f"{one.results:,}")
    Console().print(table)
    return [{**asdict(one), "rows_per_second": one.rows_per_second} for one in found]


def _show_latencies(found: Sequence[Latency]) -> list[dict[str, Any]]:
    table = Table("system", "p50", "this ÷ first", "p95", "p99", "CPU s", title="latency at 5,000 rows/s")
    for one in found:
        times = f"{one.p50 / found[0].p50:.1f} ×"
        table.add_row(one.system, f"{one.p50:.3f} s", times, f"{one.p95:.3f} s", f"{one.p99:.3f} s", f"{one.cpu:.1f}")
    Console().print(table)
    return [asdict(one) for one in found]
