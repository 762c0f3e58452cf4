"""`watersmeet run`: runs a pipeline with a live view, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.spinner import Spinner
from rich.text import Text

from watersmeet.cli.arguments import HOME, PipelineFile, Settings, given_options, help_text, home_option, text_of
from watersmeet.cli.errors import reporting
from watersmeet.cli.tables import count_text, rejected_folder, set_aside_text, suspended_text

if TYPE_CHECKING:
    from watersmeet.control.stats import StreamStats
    from watersmeet.engine import Engine

HELP = help_text(
    "Run a pipeline and show its progress, until Ctrl-C.",
    "Ctrl-C, SIGTERM or SIGHUP stops it after the running tick. A run with the same home resumes where it stopped: "
    "nothing is lost, nothing is repeated. Relative paths in the file are relative to the file's folder.",
    examples=(
        "watersmeet run pipeline.sql --once",
        "watersmeet run pipeline.sql --home /var/lib/shop --set tick='1 second'",
        "watersmeet run pipeline.sql --set spark.driver.memory=4g",
    ),
)


def run(
    pipeline: PipelineFile,
    once: Annotated[bool, typer.Option("--once", help="Process what the sources contain now, then stop.")] = False,
    flush: Annotated[
        bool,
        typer.Option(
            "--flush",
            help="With --once: at the end, close all windows and decide all absences.",
        ),
    ] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Run queries and streams as the file has them now, though they were edited."),
    ] = False,
    home: Annotated[Path, home_option("The folder of all state; a run with the same folder resumes.")] = HOME,
    set_: Settings = None,
) -> None:
    options = given_options(set_)
    if flush and not once:
        raise typer.BadParameter("use it together with --once: only then an end is reached", param_hint="--flush")
    with reporting(home):
        from watersmeet.cli.dashboard import StatsWatch, as_line, as_table
        from watersmeet.cli.screen import WAIT, StopRequest, show_until, start_spark, step
        from watersmeet.engine import Engine

        console = Console()
        engine = Engine(home=home, **options)
        engine.sql(text_of(pipeline), pipeline)
        start_spark(console, engine)
        with StopRequest(console) as stop, engine:
            with step(console, "recovering" if engine.newest.tick else "preparing"):
                engine.start(once=once, accept=accept)
            watch = StatsWatch(engine)
            picture = watch.look()

            def finished() -> bool:
                nonlocal picture
                ended = engine.wait(WAIT)
                picture = watch.look()
                return ended or stop.wanted

            waiting = Spinner("dots", "waiting for the first tick …")
            hint = Text(" Ctrl-C stops it after the running tick.", "dim")
            show_until(
                console,
                finished,
                lambda: Group(Text(), as_table(picture), hint) if picture.tick_times else waiting,
                lambda: as_line(picture) if picture.tick_times else "waiting for the first tick …",
            )
            if flush and not stop.wanted:
                engine.flush()
            engine.stop()
        _summary(console, engine, stopped=stop.wanted)


def _summary(console: Console, engine: Engine, stopped: bool) -> None:
    from watersmeet.cli.screen import say

    stats = engine.stats()
    say(console, f"{'stopped' if stopped else 'done'} after tick {stats.tick}")
    for stream in stats.streams:
        aside = set_aside_of(engine.home, stream)
        if rejected := rejected_folder(engine.home, stream):
            aside += f"; see {rejected}"
        rows = count_text(stream.rows, "row", "rows")
        say(console, f"  {stream.name}: {rows}{f' ({aside})' if aside else ''}")
    for query in stats.queries:
        say(console, f"  {query.name}: {count_text(query.results, 'result', 'results')} in {query.folder}")
        if query.suspended is not None:
            say(console, f"  {suspended_text(query.name, query.suspended, engine.home)}")
    if stopped:
        say(console, f"The same command resumes from here; the state is in {engine.home}")


def set_aside_of(home: Path, stream: StreamStats) -> str:
    """What was set aside of a stream; of files, with the first reason that their list has."""
    from watersmeet.home import layout
    from watersmeet.home.counters import Reason
    from watersmeet.home.files import advice_in

    counts = dict(stream.set_aside)
    files, opening = counts.pop(Reason.UNREADABLE_FILE, 0), f"stream {stream.name}: "
    said = ""
    if files:
        said = f"{count_text(files, 'file', 'files')} set aside"
        for record in advice_in(layout.rejected_files(home, stream.name)):
            if record["because"].startswith(opening):  # files that were read before are listed there too
                said += f": {record['because'].removeprefix(opening).removeprefix(record['file']).strip()}"
                break
    return ", ".join(part for part in (set_aside_text(counts), said) if part)
