"""The embedded demo: an auction site whose events arrive in files while nine queries join and count them."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from watersmeet.cli.dashboard import (
    Latency,
    Picture,
    StatsWatch,
    as_line,
    as_table,
    query_table,
    stream_table,
)
from watersmeet.cli.demo.feeder import Feeder
from watersmeet.cli.demo.latency import RECENT, Latencies
from watersmeet.cli.screen import WAIT, StopRequest, say, show_until, start_spark, step
from watersmeet.cli.tables import count_text, seconds_text
from watersmeet.engine import Engine
from watersmeet.errors import WatersmeetError
from watersmeet.home import layout

MARK = "watersmeet-demo.txt"  # says that a folder may be emptied by the next demo
CATCH_UP = 20.0  # seconds at most for what is still on its way when the events end


def pipeline_text() -> str:
    return resources.files("watersmeet.cli.demo").joinpath("pipeline.sql").read_text("utf-8")


def run_demo(console: Console, home: Path, seconds: float, rate: float, options: Mapping[str, Any]) -> None:
    """Run the demo until its time is over or the user stops it, then print a summary."""
    prepare_home(home)
    engine = Engine(home=home / "home", **options)
    feeder = Feeder(home / "input", rate, seconds)
    script = home / "pipeline.sql"
    script.write_text(pipeline_text())
    engine.sql(pipeline_text(), script)
    start_spark(console, engine)
    with StopRequest(console) as stop, engine:
        with step(console, "first tick, with the first events"):
            feeder.write_history()
            engine.start()
            while not stop.wanted and not engine.stats().tick and not engine.wait(WAIT):
                pass
        demo = _Demo(engine, feeder, seconds, stop)
        if not stop.wanted:
            feeder.start()
            show_until(console, demo.finished, demo.draw, demo.line)
            feeder.finish()
        demo.stop()
    demo.report(console)


def prepare_home(home: Path) -> None:
    """An empty folder; one of a previous demo is emptied, any other is rejected."""
    if (home / MARK).exists():
        shutil.rmtree(home)
    if home.exists() and any(home.iterdir()):
        raise WatersmeetError(
            f"{home} contains files that are not of a previous demo", hint="choose another folder with --home"
        )
    home.mkdir(parents=True, exist_ok=True)
    (home / MARK).write_text("This folder was created by `watersmeet demo`. The next demo deletes its files.\n")


class _Demo:
    """The state of the show: what to draw, and when it is over."""

    def __init__(self, engine: Engine, feeder: Feeder, seconds: float, stop: StopRequest) -> None:
        self._engine = engine
        self._feeder = feeder
        self._seconds = seconds
        self._stop = stop
        self._watch = StatsWatch(engine)
        self._latencies = Latencies(engine, feeder)
        self._picture = self._watch.look()
        self._before = self._picture.now
        self._ended_at: float | None = None

    def finished(self) -> bool:
        """Wait a little and look; over when every event written is committed, or a person wants the end."""
        ended = self._engine.wait(WAIT)
        self._look(self._latencies.recent())
        if self._feeder.failure is not None:
            raise self._feeder.failure
        if self._stop.wanted or ended:
            return True
        if self._feeder.is_alive():
            return False
        self._ended_at = self._ended_at or time.monotonic()
        return self._caught_up() or time.monotonic() > self._ended_at + CATCH_UP

    def stop(self) -> None:
        """End the engine after its running tick, and count that tick too."""
        self._engine.stop()
        self._look(self._latencies.recent())

    def _look(self, latency: Mapping[str, Latency]) -> None:
        stats = self._engine.stats()
        self._latencies.update(stats)
        self._picture = self._watch.look(latency)

    def _caught_up(self) -> bool:
        committed = {stream.name: stream.newest or 0 for stream in self._engine.stats().streams}
        return all(committed[stream] >= newest for stream, newest in self._feeder.newest.items())

    def draw(self) -> RenderableType:
        elapsed = self._feeder.elapsed
        title = Table.grid(padding=(0, 2))
        title.add_row(
            Text(" Watersmeet demo", "bold"),
            Text(f"{elapsed:.0f} of {self._seconds:.0f} s"),
            ProgressBar(total=self._seconds, completed=elapsed, width=16),
            Text("" if self._feeder.is_alive() else "catching up", "dim"),
        )
        hint = Text(f" Latency: from a row's file to its results, last {RECENT:.0f} s. Ctrl-C stops the demo.", "dim")
        return Group(Text(), title, as_table(self._picture), hint)

    def line(self) -> str:
        """The state of the demo as a line of a log: the slowest query stands for all."""
        known = self._picture.latency.values()
        worst = (max(median for median, _ in known), max(high for _, high in known)) if known else None
        return f"{self._feeder.elapsed:.0f} s · {as_line(self._picture, latency_text(worst))}"

    def report(self, console: Console) -> None:
        """The figures of the whole run, and what to try next."""
        elapsed = self._feeder.elapsed
        picture = Picture(self._picture.now, self._before, max(elapsed, 1e-9), self._latencies.whole_run())
        if console.is_terminal:
            console.print(Group(Text(), stream_table(picture), Text(), query_table(picture)))
        else:
            row_rates, result_rates = picture.row_rates, picture.result_rates
            for stream in picture.now.streams:
                say(console, f"{stream.name}: {stream.rows:,} rows, {row_rates[stream.name]:,.0f}/s")
            for query in picture.now.queries:
                results = f"{query.results:,} results, {result_rates[query.name]:,.0f}/s"
                figures = (results, latency_text(picture.latency.get(query.name)))
                say(console, f"{query.name}: {', '.join(figure for figure in figures if figure)}")
        ticks = count_text(picture.now.tick, "tick", "ticks")
        say(console, f"\n{elapsed:.0f} s of events in {ticks}; rates and latencies are of the whole run.")
        say(console, f"Results: {_nearby(self._engine.home / layout.RESULTS)}, one folder per query.")
        say(console, next_commands(self._engine.home))


def next_commands(home: Path) -> str:
    """Three commands that are worth trying after the demo, as they work in this folder."""
    watersmeet, script = command_here(), _quoted(home.parent / "pipeline.sql")
    picture = _quoted(home.parent / "plan.svg")
    files = _nearby(layout.results(home, "high_bids") / "*.parquet")
    look = f"import duckdb; duckdb.read_parquet('{files}').limit(10).show()"
    quoted = f'"{look}"' if not set(look) & set('"$`\\!') else shlex.quote(look)  # easier to read than shlex's quotes
    tried = (
        ("Which steps the queries share, and what that saves", f"{watersmeet} explain {script}"),
        ("The same as a picture, to be opened in a browser", f"{watersmeet} explain {script} --format svg > {picture}"),
        ("Ten results", f"{_quoted(Path(sys.executable))} -c {quoted}"),
    )
    return "\n".join(("\nWhat to try next:", *(f"\n# {why}\n{command}" for why, command in tried)))


def command_here() -> str:
    """The command line as a person in this folder types it."""
    called = Path(sys.argv[0])
    if called.name != "watersmeet":
        return f"{_quoted(Path(sys.executable))} -m watersmeet.cli"
    found = shutil.which("watersmeet")
    return "watersmeet" if found and Path(found).samefile(called) else _quoted(called)


def _quoted(path: Path) -> str:
    return shlex.quote(str(_nearby(path)))


def latency_text(latency: Latency | None) -> str:
    return f"latency p50 {seconds_text(latency[0])}, p95 {seconds_text(latency[1])}" if latency else ""


def _nearby(path: Path) -> Path:
    """A path as a person here would type it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
