"""`watersmeet check`: the first error of each statement of a pipeline, without data and without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.arguments import HOME, PipelineFile, Settings, given_options, help_text, home_option, text_of
from watersmeet.cli.errors import ExitCode, reporting, show_error

HELP = help_text(
    "Check a pipeline and report the first error of each statement, without reading data or starting Spark.",
    examples=("watersmeet check pipeline.sql", "watersmeet check pipeline.sql --home /var/lib/shop"),
)


def check(
    pipeline: PipelineFile,
    home: Annotated[Path, home_option("The home that the pipeline is to run with.")] = HOME,
    set_: Settings = None,
) -> None:
    options = given_options(set_)
    with reporting(None):
        from watersmeet.cli.tables import count_text
        from watersmeet.errors import ModelError, WatersmeetError
        from watersmeet.io.sources import missing_folder, probable_typos
        from watersmeet.options import read_options
        from watersmeet.pipeline import Pipeline, check_script
        from watersmeet.plan.at_fault import queries_at_fault
        from watersmeet.plan.planner import AT_ONCE, make_plan

        declared, errors = check_script(
            Pipeline(read_options(options)[0], home.absolute()), text_of(pipeline), str(pipeline)
        )
        for error in errors:
            show_error(error)
        if errors:
            typer.echo(count_text(len(errors), "error", "errors"), err=True)
            raise typer.Exit(ExitCode.ERROR)
        streams, queries = tuple(declared.streams.values()), tuple(declared.queries.values())
        try:
            make_plan(AT_ONCE, streams, queries, declared.options)  # the last step that could reject the queries
        except WatersmeetError:
            raise
        except Exception:
            at_fault = queries_at_fault(streams, queries, declared.options)
            for name, reason in at_fault.items():
                show_error(
                    ModelError(f"query {name}: {reason}", hint="write it in another way, and please report this")
                )
            if not at_fault:
                raise
            raise typer.Exit(ExitCode.ERROR) from None
        counted = (count_text(len(streams), "stream", "streams"), count_text(len(queries), "query", "queries"))
        typer.echo(f"ok: {', '.join(counted)}")
        for stream in streams:
            for note in probable_typos(stream):
                typer.echo(f"note: {note}")
            if problem := missing_folder(stream):
                typer.echo(f"note: {problem.problem}; it must exist when the pipeline runs")
