"""`watersmeet init`: a sample project that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.arguments import help_text
from watersmeet.cli.errors import reporting

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
        from watersmeet.cli.sample_project import write_sample

        write_sample(folder, kafka)
        commands = (
            ("docker compose up -d", "watersmeet run pipeline.sql")
            if kafka
            else ("watersmeet run pipeline.sql --once",)
        )
        listed = "\n".join(f"  {command}" for command in (f"cd {folder}", *commands))
        typer.echo(f"A sample project is in {folder}. Run it:\n\n{listed}\n")
