"""`watersmeet demo`: an auction site whose events arrive in files while nine queries join and count them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from watersmeet.cli.arguments import Settings, given_options, help_text, home_option
from watersmeet.cli.errors import reporting

HELP = help_text(
    "Watch nine queries over the live events of an auction site, with their rates and latencies.",
    "The demo writes the events into files at a steady rate; Spark tasks read them, and the results are Parquet files. "
    "It stops by itself; Ctrl-C stops it earlier.",
    examples=("watersmeet demo", "watersmeet demo --seconds 60 --rate 10000"),
)


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="Duration in seconds.")] = 30,
    rate: Annotated[float, typer.Option(min=10, max=1_000_000, help="Events per second.")] = 2000,
    home: Annotated[Path, home_option("The demo's folder; files of a previous demo are deleted.")] = Path(
        "watersmeet-demo"
    ),
    set_: Settings = None,
) -> None:
    options = given_options(set_)
    with reporting(home):
        from watersmeet.cli.demo.show import run_demo

        run_demo(Console(), home, seconds, rate, options)
