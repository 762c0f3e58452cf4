"""The commands that compare systems, and `all`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import calibrate, durability, estimates, result_files, runtime, sharing, side_by_side, small_ticks
from bench.comparing import SYSTEMS
from bench.kafka.command import kafka
from bench.report import write_json
from bench.targets import SMALL_TICKS

Systems = Annotated[str, typer.Option(help=f"with commas between them: {', '.join(SYSTEMS)}; empty: the usual ones")]
Scale = Annotated[float, typer.Option(min=0.001, help="how much input, against the usual amount")]
Profile = Annotated[bool, typer.Option("--profile", help="also show where the time of a tick goes")]

HELP = {
    "three-way": "R ⋈ S ⋈ T with windows of 10 s: Watersmeet, Spark, Flink, Pathway, DuckDB.",
    "three-way-10": "Ten of them that differ in windows, columns and filters: all systems, and ways to share.",
    "advertising": "Impressions, clicks and purchases of advertisements: Watersmeet, Spark, Flink, Pathway, DuckDB.",
    "advertising-10": "Ten of them that differ in windows, columns and filters: all systems, and ways to share.",
    "nexmark": "Nexmark's join queries q3, q8, q20 and q23: all systems.",
    "tpch-5": "Five random join queries over TPC-H with full history: all systems, and ways to share.",
    "tpch-10": "The same with ten queries.",
    "chain-20": "Twenty counts over a chain of five relations that share its inner joins: ways to share.",
}

# (workload, options) of `all`, and what makes each of them short: the number of rows, and which systems.
SHORT = (
    ("three-way", "--scale", "0.1", "--systems", "joint,spark,flink,pathway,duckdb-loop,duckdb"),
    ("small-ticks", "--seconds", "15"),
    ("runtime", "--no-peers"),
    ("nexmark", "--scale", "0.1", "--systems", "joint,flink-set,pathway,duckdb-loop,duckdb"),
    ("tpch-5", "--scale", "0.2", "--systems", "joint,naive,alone,each,spark,duckdb-loop,duckdb"),
    ("tpch-10", "--scale", "0.2", "--systems", "joint,alone,each,duckdb"),
    ("chain-20", "--scale", "0.25", "--systems", "joint,alone,duckdb"),
    ("window", "--rows", "2000", "--window", "10", "--window", "60", "--last", "10"),
    ("ajoin", "--queries", "1", "--queries", "20", "--queries", "100", "--rows", "5000", "--ticks", "14"),
)
FULL = (
    ("three-way",),
    ("small-ticks",),
    ("runtime",),
    ("nexmark",),
    ("tpch-5",),
    ("tpch-10",),
    ("chain-20",),
    ("window", "--window", "10", "--window", "100", "--window", "1000"),
    ("ajoin", *(part for count in (1, 5, 20, 100, 500, 2000) for part in ("--queries", str(count)))),
)


def register(app: typer.Typer) -> None:
    for name in side_by_side.WORKLOADS:
        app.command(name, help=HELP[name])(_comparison(name))
    app.command("small-ticks")(latency)
    app.command("runtime")(runtime.run)
    app.command("durability")(durability.run)
    app.command("result-files")(result_files.run)
    app.command("calibrate")(calibrate.run)
    app.command("estimates")(estimates.run)
    app.command("sharing")(sharing.run)
    app.command("kafka")(kafka)
    app.command("all")(everything)
    app.callback(invoke_without_command=True)(profile_alone)


def _comparison(name: str):  # type: ignore[no-untyped-def]
    def command(systems: Systems = "", scale: Scale = 1.0, profile: Profile = False) -> None:
        side_by_side.run(name, systems, scale, profile)

    return command


def profile_alone(
    context: typer.Context,
    profile: Annotated[bool, typer.Option("--profile", help="where the time of a tick goes, for three-way")] = False,
    scale: Scale = 1.0,
) -> None:
    if context.invoked_subcommand is None:
        if not profile:
            print(context.get_help())
            raise typer.Exit
        side_by_side.run("three-way", "joint", scale, profile=True)


def latency(
    systems: Annotated[str, typer.Option(help="joint, spark, or both with a comma")] = "joint,spark",
    seconds: Annotated[float, typer.Option(min=5, help="how long rows arrive")] = 40.0,
) -> None:
    """Latency from arrival to visible result, 5,000 rows every 0.5 s, three-way."""
    chosen = [name.strip() for name in systems.split(",")]
    if unknown := [name for name in chosen if name not in small_ticks.SYSTEMS]:
        raise SystemExit(f"unknown systems: {', '.join(unknown)}; there are {', '.join(small_ticks.SYSTEMS)}")
    periods = int(seconds / small_ticks.PERIOD)
    found = {}
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="watersmeet-bench-") as folder:
            found[name] = small_ticks.measure(name, Path(folder), periods, warm_up=periods // 4)
    table = Table(
        "system", title="small-ticks: seconds from arrival to visible result; all results as DuckDB counts them"
    )
    for column in ("p50", "p95", "p99", "ticks", "results measured"):
        table.add_column(column, justify="right")
    for name, of in found.items():
        cells = (f"{of.p50:.2f}", f"{of.p95:.2f}", f"{of.p99:.2f}", str(of.ticks), f"{of.results:,}")
        table.add_row(small_ticks.SYSTEMS[name], *cells)
    Console().print(table)
    if len(found) == len(small_ticks.SYSTEMS):
        ratio = found["spark"].p50 / found["joint"].p50
        met = "met" if ratio >= SMALL_TICKS else "missed"
        print(f"Spark's median is {ratio:.2f} × ours; the target is {SMALL_TICKS:g} ×: {met}")
    write_json("small-ticks", {"latency": {name: asdict(of) for name, of in found.items()}})


def everything(
    short: Annotated[bool, typer.Option("--short", help="little input and fewer systems: under ten minutes")] = False,
) -> None:
    """Every workload, one after the other, each in a process of its own; a failure does not stop the others."""
    failed = []
    for arguments in SHORT if short else FULL:
        print(f"\n=== {' '.join(arguments)}", flush=True)
        if subprocess.run([sys.executable, "-m", "bench", *arguments], check=False).returncode:
            failed.append(arguments[0])
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
