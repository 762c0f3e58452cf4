"""`bench/run WORKLOAD`: prints a table, writes bench/out/WORKLOAD.json and, where systems are compared, a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import ajoin
from bench.many_queries import add_while_running, run_many, shared_selects
from bench.multistream.__main__ import main as multistream
from bench.pipeline import run_pipeline
from bench.report import write_json
from bench.scratch import in_scratch
from bench.suite import register
from bench.three_streams import query_sql, streams_sql, write_streams
from bench.windows.command import windows

WARM_UP = 5  # ticks at the start of which no single one counts

app = typer.Typer(add_completion=False, help=__doc__)
register(app)
app.command("multistream")(multistream)
app.command("windows")(windows)


def report(workload: str, title: str, columns: list[str], rows: list[list[str]], figures: dict[str, Any]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    write_json(workload, figures)


@app.command()
def window(
    rows: Annotated[int, typer.Option(help="rows for each tick and stream")] = 20_000,
    windows: Annotated[list[int], typer.Option("--window", help="ticks in a window")] = [10, 100, 400],  # noqa: B006
    last: Annotated[int, typer.Option(help="ticks measured, once the window is full")] = 30,
) -> None:
    """The time of a tick as the window grows, at a constant number of results."""
    seconds: dict[int, float] = {}
    worst: dict[int, float] = {}  # tick since the first ones, against the median
    table: list[list[str]] = []

    for length in windows:

        def work(folder: Path, length: int = length) -> None:
            write_streams(folder / "in", length + last + 1, rows, ticks_in_window=length)
            ours = run_pipeline(streams_sql(folder / "in") + query_sql(), folder / "home")
            seconds[length] = ours.seconds_per_tick(last)
            ticks = ours.seconds_of_ticks(len(ours.ended) - WARM_UP)
            worst[length] = max(ticks) / median(ticks)
            ratios = [f"{seconds[length] / seconds[windows[0]]:.2f} ×", f"{worst[length]:.1f} ×"]
            table.append([str(length), f"{seconds[length]:.3f}", *ratios, f"{ours.state_bytes / 1e6:,.0f} MB"])

        in_scratch(work)
    title = f"window, {3 * rows:,} rows a tick"
    report(
        "window",
        title,
        ["ticks in the window", "seconds a tick", "against the first", "worst tick against the median", "state"],
        table,
        {"seconds": seconds, "worst": worst},
    )


@app.command()
def state(rows: int = 50_000, ticks: int = 8, queries: int = 10) -> None:
    """State for many queries over the same three streams, against one."""

    def work(folder: Path) -> None:
        write_streams(folder / "in", ticks, rows, ticks_in_window=4)
        sizes = {}
        for count in (1, queries):
            script = streams_sql(folder / "in") + "".join(
                query_sql(f"q{number}", selected=f"r.id AS r, s.id AS s, t.id AS t, t.c + {number} AS c")
                for number in range(count)
            )
            sizes[count] = run_pipeline(script, folder / f"home{count}").state_bytes
        table = [[str(count), f"{size / 1e6:,.1f} MB", f"{size / sizes[1]:.2f} ×"] for count, size in sizes.items()]
        report("state", "state by number of queries", ["queries", "state", "against one"], table, {"bytes": sizes})

    in_scratch(work)


@app.command("ajoin")
def ajoin_queries(
    counts: Annotated[list[int], typer.Option("--queries", help="numbers of queries")] = [1, 20, 100, 500],  # noqa: B006
    rows: Annotated[int, typer.Option(help="rows for each second and stream")] = 10_000,
    ticks: Annotated[int, typer.Option(help="ticks, of one second each; the first eight are not measured")] = 24,
) -> None:
    """Many queries over two streams (AJoin, Fig. 14), with filters, windows of 1 to 3 s, 50 % similarity."""

    def work(folder: Path) -> None:
        ajoin.write_streams(folder / "in", ticks, rows)
        found = {n: run_many(folder, f"home{n}", ajoin.selects(n), last=max(1, ticks - 8)) for n in counts}
        first = found[counts[0]]
        table = [
            [
                f"{n:,}",
                f"{of.seconds:.3f}",
                f"{of.cpu:.3f}",
                f"{of.cpu / first.cpu:.1f} ×",
                f"{n * 2 * rows / of.seconds:,.0f}",
                f"{of.state_bytes / 1e6:,.1f} MB",
                f"{of.matches:,}",
            ]
            for n, of in found.items()
        ]
        columns = [
            "queries",
            "seconds a tick",
            "CPU seconds",
            "against the first",
            "overall rows/s",
            "state",
            "matches",
        ]
        title = f"ajoin, {2 * rows:,} rows a tick of one second; some queries compared with DuckDB"
        report("ajoin", title, columns, table, {"runs": {n: asdict(of) for n, of in found.items()}})

    in_scratch(work)


@app.command()
def adding(
    rows: Annotated[int, typer.Option(help="rows for each second and stream")] = 5_000,
    per_second: Annotated[int, typer.Option(help="queries added each second")] = 10,
    seconds: Annotated[int, typer.Option(help="how long queries are added")] = 60,
) -> None:
    """Queries added to a running engine from another process: ticks before, while and after; deployment latency."""

    def work(folder: Path) -> None:
        found = add_while_running(folder, rows, per_second, seconds)
        table = [
            [name, str(len(times)), *(f"{value:.2f}" for value in (median(times), max(times)))]
            for name, times in (("before", found.before), ("while adding", found.during), ("after", found.after))
        ]
        waits = sorted(found.latencies)
        late = waits[int(0.99 * (len(waits) - 1))]
        title = (
            f"adding {per_second} queries a second for {seconds} s, {2 * rows:,} rows a second; "
            f"{found.queries} active, {found.rejected} rejected; "
            f"latency: median {median(waits):.2f} s, 99 % {late:.2f} s"
        )
        report("adding", title, ["ticks", "number", "median s", "longest s"], table, asdict(found))

    in_scratch(work)


@app.command()
def grouping(
    queries: int = 200,
    rows: Annotated[int, typer.Option(help="rows for each second and stream")] = 20_000,
    ticks: int = 12,
    shares: Annotated[list[int], typer.Option("--share", help="percent of queries that want a row")] = [5, 25, 50, 75],  # noqa: B006
) -> None:
    """Groups of queries against sharing everything and sharing nothing (AJoin, Fig. 22a)."""

    def work(folder: Path) -> None:
        ajoin.write_streams(folder / "in", ticks, rows)
        table, figures = [], {}
        for share in shares:
            texts = shared_selects(queries, share)
            found = {
                mode: run_many(folder, f"{mode}{share}", texts, last=4, sharing=mode, epoch=2)
                for mode in ("none", "all", "groups")
            }
            figures[share] = {mode: asdict(of) for mode, of in found.items()}
            table.append([f"{share} %", *(f"{of.probe:.3f} ({of.seconds:.2f})" for of in found.values())])
        title = f"grouping, {queries} queries of one join, {2 * rows:,} rows a tick; seconds of probing (of the tick)"
        columns = ["wanted by", "share nothing", "share everything", "groups"]
        report("grouping", title, columns, table, {"runs": figures})

    in_scratch(work)


if __name__ == "__main__":
    app()
