"""The command line: the app, and which module has which command. Exit codes are in `errors`; 2 is invalid usage."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from watersmeet import __version__
from watersmeet.cli import check, control, demo, explain, plans, run, sample_project
from watersmeet.cli.arguments import help_text

app = typer.Typer(
    name="watersmeet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _ToTerminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)  # to what is standard error at that moment: the live view replaces it


def main() -> None:
    logging.getLogger("watersmeet").addHandler(_ToTerminal(logging.WARNING))
    # Libraries log stack traces of what is an error with an explanation here.
    logging.getLogger().addHandler(logging.NullHandler())
    app(prog_name="watersmeet")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"watersmeet {__version__}")
        raise typer.Exit


@app.callback(
    help=help_text(
        "Many continuous multi-way join queries over shared streams, on Spark, with one shared state.",
        "To see it work: [bold]watersmeet demo[/bold]. To start a project of your own:",
        "  watersmeet init shop && cd shop\n  watersmeet run pipeline.sql --once",
    )
)
def watersmeet(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that belong to no command."""


app.command(help=run.HELP)(run.run)
app.command(help=check.HELP)(check.check)
app.command(help=explain.HELP)(explain.explain)
app.command(help=control.ADD_HELP)(control.add)
app.command(help=control.DROP_HELP)(control.drop)
app.command(help=control.RESUME_HELP)(control.resume)
app.command(name="list", help=control.LIST_HELP)(control.list_)
app.command(help=control.STATS_HELP)(control.stats)
app.command(name="retry-rejected", help=control.RETRY_HELP)(control.retry_rejected)
app.command(help=plans.HELP)(plans.plans)
app.command(help=sample_project.HELP)(sample_project.init)
app.command(help=demo.HELP)(demo.demo)
