"""`bench/run windows`: windowed queries of each class, by CPU time, every result compared with DuckDB's."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.report import write_json
from bench.scratch import in_scratch
from bench.windows import ads, grid, inputs, joins, running, tpch
from bench.windows import rows as rows_of_joins
from bench.windows.advertising import aggregations, aggregations_of_join, rows_of_join
from bench.windows.running import Run
from bench.windows.workload import Aggregation, Workload, drawn, sliding_sum

PARTS = ("sum", "many", "joins", "tpch", "state", "ads", "ads-join", "ads-fan-out", "rows", "grid")
CARDINALITIES = [5, 1_000, 100_000, 1_000_000]
WARM_UP = 4  # ticks that do not count
TICKS = 14
# Beside the loop the first half of the ticks does not count, for all systems alike: the JVM compiles itself for some
# seconds, and the longest windows fill.
BESIDE_LOOP = 120
SLIDES = (10, 2)  # of the join that gives rows
SAMPLE = 2  # queries of many that Spark runs; it shares nothing, so that the others cost as much


def windows(
    parts: Annotated[list[str], typer.Option("--part", help=f"of {', '.join(PARTS)}")] = list(PARTS),  # noqa: B006
    rows: Annotated[int, typer.Option(help="rows of a tick of one second")] = 50_000,
    ticks: Annotated[
        int, typer.Option(help="0: so many that a part is measured in its steady state, see docs/windows.md")
    ] = 0,
    keys: Annotated[int, typer.Option(help="of the single sum")] = 1_000,
    counts: Annotated[list[int], typer.Option("--queries", help="numbers of aggregations")] = [1, 10, 100, 1000],  # noqa: B006
    cardinalities: Annotated[
        list[int], typer.Option("--cardinality", help="numbers of keys of the grid")
    ] = CARDINALITIES,
    orders: Annotated[int, typer.Option(help="of a window, in the queries of TPC-H")] = 4_000,
    known: Annotated[bool, typer.Option(help="ads-join begins with statistics, as after a first life")] = True,
    peers: Annotated[str, typer.Option(help="systems to compare with, of spark and flink, or none")] = "spark flink",
) -> None:
    """Sliding aggregates by key, many of them at once, over joins, and their state."""
    figures: dict[str, Any] = {}
    few, many = ticks or TICKS, ticks or BESIDE_LOOP
    for part in parts:
        if part == "sum":
            figures[part] = in_scratch(lambda folder: _sum(folder, few, rows, keys, peers.split()))
        elif part == "many":
            figures[part] = in_scratch(lambda folder: _many(folder, few, rows, counts, peers.split()))
        elif part == "joins":
            figures[part] = joins.measured()
            joins.show(figures[part])
        elif part == "tpch":
            figures[part] = in_scratch(lambda folder: tpch.measured(folder, few, orders))
            tpch.show(figures[part], orders)
        elif part == "state":
            figures[part] = in_scratch(lambda folder: _state(folder, few, rows, keys))
        elif part == "rows":
            figures[part] = [each for slide in SLIDES for each in _rows(slide, many, rows, peers.split())]
        elif part == "grid":
            figures[part] = grid.show(grid.measured(ticks, rows, counts, cardinalities), rows)
        else:
            figures[part] = in_scratch(partial(_ads, part, many, rows, peers.split(), known))
        write_json("windows-" + part, {"parts": {part: figures[part]}})


def _sum(folder: Path, ticks: int, rows: int, keys: int, peers: list[str]) -> list[dict[str, Any]]:
    """One sum by key, range / slide = 60."""
    inputs.write_rows(folder / "in", ticks, rows, keys)
    workload = Workload(str(folder / "in"), ticks, rows, sliding_sum())
    found = [running.ours(workload, folder / "home", WARM_UP)]
    found += [_peer(name, workload, folder) for name in peers if name != "none"]
    return _show(f"sliding SUM by {keys:,} keys, range 60 × slide, {rows:,} rows per tick", found)


def _many(folder: Path, ticks: int, rows: int, counts: list[int], peers: list[str]) -> list[dict[str, Any]]:
    """Aggregations with ranges and slides drawn at random, by five keys."""
    inputs.write_rows(folder / "in", ticks, rows, 5)
    found = []
    for count in counts:
        workload = Workload(str(folder / "in"), ticks, rows, drawn(count))
        found.append(running.ours(workload, folder / f"home{count}", WARM_UP))
    compared = drawn(100)
    for name in (each for each in peers if each != "none"):
        chosen = compared[:: len(compared) // SAMPLE] if name == "spark" else compared
        found.append(_peer(name, Workload(str(folder / "in"), ticks, rows, chosen), folder))
    return _show(f"aggregations by five keys, {rows:,} rows per tick", found)


def _peer(name: str, workload: Workload, folder: Path) -> Run:
    if name == "spark":
        return running.spark(workload, folder / "spark", WARM_UP)
    return running.flink(workload, folder / "flink")


def _ads(part: str, ticks: int, rows: int, peers: list[str], known: bool, folder: Path) -> list[dict[str, Any]]:
    """The advertising workload beside a loop of DuckDB."""
    questions = aggregations() if part == "ads" else aggregations_of_join()
    fan_out = 100 if part == "ads-fan-out" else 1
    found = ads.measured(folder, questions, ticks, rows, ticks // 2, peers, fan_out, known)
    return ads.show(f"{part}: {len(questions)} sliding aggregations, {rows:,} rows per tick", found)


def _rows(slide: int, ticks: int, rows: int, peers: list[str]) -> list[dict[str, Any]]:
    """A join that gives rows, in windows of ten seconds."""
    question, skip = rows_of_join(slide), ticks // 2
    found = in_scratch(lambda folder: rows_of_joins.measured(folder, question, ticks, rows, skip, peers))
    return ads.show(f"rows of a join, 10 s every {slide} s, {rows:,} rows per tick", found)


def _state(folder: Path, ticks: int, rows: int, keys: int) -> list[dict[str, Any]]:
    """The same windows over ever more rows."""
    found = []
    for times in (1, 4, 16):
        place = folder / str(times)
        inputs.write_rows(place / "in", ticks, rows // 16 * times, keys)
        query = (Aggregation("q0", 10, 1, "SUM(x)"),)
        workload = Workload(str(place / "in"), ticks, rows // 16 * times, query)
        found.append(running.ours(workload, place / "home", WARM_UP))
    return _show(f"state of a sum over 10 s by {keys:,} keys", found)


def _show(title: str, found: list[Run]) -> list[dict[str, Any]]:
    first = found[0]
    table = Table(title=title)
    for column in ("system", "queries", "CPU s per million rows", "÷ the first", "CPU s per query", "state", "note"):
        table.add_column(column, justify="left" if column in ("system", "note") else "right")
    for one in found:
        table.add_row(
            one.system,
            f"{one.queries:,}",
            f"{one.cpu_per_million:.2f}",
            f"{one.cpu_per_million / first.cpu_per_million:.2f} ×",
            f"{one.cpu_per_million / one.queries:.3f}",
            "" if one.state_bytes is None else f"{one.state_bytes / 1e6:,.2f} MB",
            one.note,
        )
    Console(width=None if Console().is_terminal else 140).print(table)
    return [{**asdict(one), "cpu_per_million": one.cpu_per_million} for one in found]
