"""`watersmeet init`: a sample project that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.errors import reporting
from watersmeet.cli.help import help_text

HELP = help_text(
    "Write a sample project that runs: a commented pipeline, small data files, a README.",
    examples=("watersmeet init shop",),
)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new or empty folder.")],
) -> None:
    with reporting(None):
        from watersmeet.cli.sample_project import write_sample

        write_sample(folder)
        typer.echo(f"A sample project is in {folder}. Run it:\n\n  cd {folder}\n  watersmeet run pipeline.sql --once\n")
