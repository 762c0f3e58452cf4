"""The command line: `watersmeet run`, `check`, `explain`, `init` and `demo`; the other commands register themselves.

Exit codes: 0 done (also after Ctrl-C or SIGTERM), 1 an error that is explained, 2 wrong usage,
70 an error of Watersmeet itself, 130 interrupted before anything ran.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.spinner import Spinner
from rich.text import Text

from watersmeet import __version__
from watersmeet.cli import control as commands
from watersmeet.cli.errors import reporting, show_error
from watersmeet.cli.help import help_text
from watersmeet.cli.plans import register as register_plans
from watersmeet.errors import WatersmeetError

if TYPE_CHECKING:
    from watersmeet.engine import Engine

app = typer.Typer(
    name="watersmeet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

commands.register(app)

Pipeline = Annotated[
    Path,
    typer.Argument(
        metavar="PIPELINE.SQL",
        exists=True,
        dir_okay=False,
        show_default=False,
        help="A file of CREATE STREAM and CREATE QUERY statements.",
    ),
]
Home = Annotated[
    Path,
    typer.Option(file_okay=False, help="The folder of all state; the same one goes on where it stopped."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        show_default=False,
        help="An option of the engine (partitions, tick, master), or of Spark if its name has a dot. Repeatable.",
    ),
]


def main() -> None:
    app(prog_name="watersmeet")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"watersmeet {__version__}")
        raise typer.Exit


@app.callback(
    help=help_text(
        "Many continuous multi-way join queries over shared streams, on Spark, with one shared state.",
        "To see it work: [bold]watersmeet demo[/bold]. To begin with a project of your own:",
        "  watersmeet init shop && cd shop\n  watersmeet run pipeline.sql --once",
    )
)
def watersmeet(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that belong to no command."""


@app.command(
    help=help_text(
        "Run a pipeline and show how it goes, until Ctrl-C.",
        "Ctrl-C or SIGTERM ends it after the running tick. Started again with the same home it goes on where it "
        "stopped: nothing is lost, nothing repeated. Relative paths in the file are relative to the file's folder.",
        examples=(
            "watersmeet run pipeline.sql --once",
            "watersmeet run pipeline.sql --home /var/lib/shop --set tick='1 second'",
            "watersmeet run pipeline.sql --set spark.driver.memory=4g",
        ),
    )
)
def run(
    pipeline: Pipeline,
    once: Annotated[bool, typer.Option("--once", help="Process what the sources hold now, then end.")] = False,
    home: Home = Path("watersmeet-home"),
    set_: Settings = None,
) -> None:
    options = _options(set_)
    with reporting(home):
        from watersmeet.cli.dashboard import Watch, as_line, as_table
        from watersmeet.cli.screen import WAIT, StopRequest, show_until, start_spark, step
        from watersmeet.engine import Engine

        console = Console()
        engine = Engine(home=home, **options)
        engine.sql(_text(pipeline), pipeline)
        start_spark(console, engine)
        with StopRequest(console) as stop, engine:
            with step(console, "recovering" if (engine.home / "manifests").exists() else "preparing"):
                engine.start(once=once)
            watch = Watch(engine)
            picture = watch.look()

            def finished() -> bool:
                nonlocal picture
                ended = engine.wait(WAIT)
                picture = watch.look()
                return ended or stop.wanted

            waiting = Spinner("dots", "waiting for the first tick …")
            hint = Text(" Ctrl-C ends it after the running tick.", "dim")
            show_until(
                console,
                finished,
                lambda: Group(Text(), as_table(picture), hint) if picture.tick_times else waiting,
                lambda: as_line(picture) if picture.tick_times else "waiting for the first tick …",
            )
            engine.stop()
        _summary(console, engine, stopped=stop.wanted)


@app.command(
    help=help_text(
        "Check a pipeline without reading data or starting Spark; reports every error.",
        examples=("watersmeet check pipeline.sql",),
    )
)
def check(pipeline: Pipeline, set_: Settings = None) -> None:
    options = _options(set_)
    with reporting(None):
        from watersmeet.cli.checking import all_errors
        from watersmeet.cli.dashboard import count_text
        from watersmeet.engine import Engine
        from watersmeet.io.sources import missing_folder

        engine = Engine(**options)
        errors = all_errors(engine, _text(pipeline), str(pipeline))
        for error in errors:
            show_error(error)
        if errors:
            typer.echo(count_text(len(errors), "error", "errors"), err=True)
            raise typer.Exit(1)
        engine.explain()  # plans the queries together, which is the last thing that could be refused
        streams, queries = len(engine.streams), len(engine.queries)
        typer.echo(f"ok: {count_text(streams, 'stream', 'streams')}, {count_text(queries, 'query', 'queries')}")
        for stream in engine.streams:
            if problem := missing_folder(stream):
                typer.echo(f"note: {problem.problem}; it has to be there when the pipeline runs")


@app.command(
    help=help_text(
        "Show the plan: what is kept, which steps serve which queries, what it costs. Does not start Spark.",
        "With --home instead of a file, the plan that the running engine obeys.",
        examples=(
            "watersmeet explain pipeline.sql",
            "watersmeet explain --home state",
            "watersmeet explain pipeline.sql --statistics stats.json --searcher exact --format json",
            "watersmeet explain pipeline.sql --format svg > plan.svg",
            "watersmeet explain pipeline.sql --what-if 'SELECT … FROM bids b, auctions a WHERE …'",
        ),
    )
)
def explain(
    pipeline: Annotated[
        Path | None,
        typer.Argument(metavar="[PIPELINE.SQL]", exists=True, dir_okay=False, show_default=False, help="A pipeline."),
    ] = None,
    home: Annotated[
        Path | None, typer.Option(file_okay=False, show_default=False, help="The home of a running engine.")
    ] = None,
    timeout: commands.Timeout = commands.TIMEOUT,
    statistics: Annotated[Path | None, typer.Option(help="JSON with sizes (or rates) and selectivities.")] = None,
    searcher: Annotated[
        str, typer.Option(help="exact, greedy, improve, individual, flat or left-deep. By default, several in turn.")
    ] = "",
    format_: Annotated[str, typer.Option("--format", help="text, json or svg.")] = "text",
    what_if: Annotated[str, typer.Option(help="A SELECT: what would this query add?")] = "",
    set_: Settings = None,
) -> None:
    options = _options(set_)
    if (pipeline is None) == (home is None):
        raise typer.BadParameter("give either a pipeline or the --home of a running engine", param_hint="PIPELINE.SQL")
    if home is not None:
        if statistics or searcher or what_if or options:
            raise typer.BadParameter("a running engine shows the plan that it has", param_hint="--home")
        with reporting(None):
            typer.echo(commands.explain_running(home, format_, timeout), nl=format_ != "svg")
        return
    assert pipeline is not None
    if searcher:
        options["searcher"] = searcher
    with reporting(None):
        from watersmeet.cli.explain import show_plan, what_one_more_adds
        from watersmeet.engine import Engine

        engine = Engine(**options)
        engine.sql(_text(pipeline), pipeline)
        known = _text(statistics) if statistics else None
        if what_if:
            typer.echo(what_one_more_adds(engine, what_if, known))
        else:
            typer.echo(show_plan(engine, known, format_), nl=format_ != "svg")


@app.command(
    help=help_text(
        "Write a sample project that runs: a commented pipeline, small data files, a README.",
        examples=("watersmeet init shop",),
    )
)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new or empty folder.")],
) -> None:
    with reporting(None):
        from watersmeet.cli.sample import write_sample

        write_sample(folder)
        typer.echo(f"A sample project is in {folder}. Run it:\n\n  cd {folder}\n  watersmeet run pipeline.sql --once\n")


@app.command(
    help=help_text(
        "Watch seven join queries over the live events of an auction site, with their rates and latencies.",
        "The events are written into files at a steady rate, as another program would do it; Spark reads them, and the "
        "results are Parquet files. It ends by itself; Ctrl-C ends it earlier.",
        examples=("watersmeet demo", "watersmeet demo --seconds 60 --rate 10000"),
    )
)
def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long events happen.")] = 30,
    rate: Annotated[float, typer.Option(min=10, max=1_000_000, help="Events each second.")] = 2000,
    home: Annotated[
        Path, typer.Option(file_okay=False, help="The demo's folder; what an earlier demo left there is removed.")
    ] = Path("watersmeet-demo"),
    set_: Settings = None,
) -> None:
    options = _options(set_)
    with reporting(home):
        from watersmeet.cli.demo import run_demo

        run_demo(Console(), home, seconds, rate, options)


register_plans(app)


def _options(given: list[str] | None) -> dict[str, Any]:
    """`--set name=value` as options of the engine; a wrong one is wrong usage."""
    from watersmeet.options import read_options

    options: dict[str, Any] = {}
    for setting in given or ():
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{setting!r} is not NAME=VALUE", param_hint="--set")
        options[name.strip()] = value.strip()
    try:
        read_options(options)
    except WatersmeetError as problem:
        raise typer.BadParameter(str(problem), param_hint="--set") from None
    return options


def _text(pipeline: Path) -> str:
    try:
        return pipeline.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise WatersmeetError(f"{pipeline} is not UTF-8 text", detail=str(problem)) from None


def _summary(console: Console, engine: Engine, stopped: bool) -> None:
    from watersmeet.cli.dashboard import set_aside_text
    from watersmeet.cli.screen import say

    stats = engine.stats()
    say(console, f"{'stopped' if stopped else 'done'} after tick {stats.tick}")
    for stream in stats.streams:
        aside = set_aside_text(stream.set_aside)
        rejected = engine.home / "rejected" / stream.name
        if aside and rejected.exists():
            aside += f"; see {rejected}"
        say(console, f"  {stream.name}: {stream.rows:,} rows{f' ({aside})' if aside else ''}")
    for query in stats.queries:
        say(console, f"  {query.name}: {query.results:,} results in {engine[query.name].folder}")
    if stopped:
        say(console, f"The same command goes on from here; the state is in {engine.home}")


if __name__ == "__main__":
    main()
