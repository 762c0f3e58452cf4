"""`bench/run multistream`: the experiments of the MultiStream paper (section V, Fig. 8), on one machine.

Every figure becomes a table, bench/out/multistream-8x.json and .svg; bench/out/multistream.md has all tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.comparing import Failed
from bench.multistream import latency, probing, storage, throughput
from bench.multistream.inputs import Inputs
from bench.multistream.running import Worker
from bench.multistream.showing import Bench, write_markdown, write_page

EXPERIMENTS: dict[str, Callable[[Bench], None]] = {
    "8a": storage.by_plan,
    "8b": storage.over_time,
    "8c": storage.by_place,
    **{name: partial(probing.probed, name=name) for name in probing.CHAINS},
    "8g": throughput.by_plan,
    "8h": throughput.by_store,
    "8i": throughput.by_shape,
    "8j": latency.by_plan,
    "8k": latency.by_places,
    "8l": latency.local_join,
}


def main(
    short: Annotated[bool, typer.Option("--short", help="less input, fewer partitions: about six minutes")] = False,
    only: Annotated[str, typer.Option(help=f"with commas between them: {', '.join(EXPERIMENTS)}")] = "",
    page: Annotated[bool, typer.Option("--page", help="then renew tables and pictures of docs/multistream.md")] = False,
) -> None:
    """The experiments of the MultiStream paper, Fig. 8a to 8l: storage, probed tuples, throughput, latency."""
    chosen = [name.strip() for name in only.split(",")] if only else list(EXPERIMENTS)
    if unknown := [name for name in chosen if name not in EXPERIMENTS]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    failed = []
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="watersmeet-bench-") as folder:
        inputs = Inputs(Path(folder))
        with Worker(inputs) as worker:
            for name in chosen:
                console.print(f"Fig. {name}")
                try:
                    EXPERIMENTS[name](Bench(inputs, worker, short))
                except Failed as problem:
                    console.print(f"  failed: {problem}", markup=False)
                    failed.append(f"{name}: {problem}")
    write_markdown()
    if page:
        write_page()
    if failed:
        raise SystemExit("failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    typer.run(main)
