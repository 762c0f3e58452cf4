"""`watersmeet explain`: the plan of a pipeline without running it, or of a running engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.arguments import TIMEOUT, Settings, Timeout, given_options, help_text, home_option, text_of
from watersmeet.cli.errors import reporting
from watersmeet.terminal import visible_lines

if TYPE_CHECKING:
    from watersmeet.pipeline import Pipeline
    from watersmeet.plan.rendered import RenderedPlan

HELP = help_text(
    "Show the plan: what the queries share, its steps and stores, and its costs. Does not start Spark.",
    "With --home instead of a file, it shows the active plan of a running engine.",
    examples=(
        "watersmeet explain pipeline.sql",
        "watersmeet explain --home state",
        "watersmeet explain pipeline.sql --statistics stats.json --searcher exact --format json",
        "watersmeet explain pipeline.sql --format svg > plan.svg",
        "watersmeet explain pipeline.sql --what-if 'SELECT … FROM bids b, auctions a WHERE …'",
    ),
)
WHAT_IF = "what_if"  # the name of the query that is only tried


def explain(
    pipeline: Annotated[
        Path | None,
        typer.Argument(metavar="[PIPELINE.SQL]", exists=True, dir_okay=False, show_default=False, help="A pipeline."),
    ] = None,
    home: Annotated[Path | None, home_option("The home of a running engine.")] = None,
    timeout: Timeout = TIMEOUT,
    statistics: Annotated[Path | None, typer.Option(help="JSON with sizes (or rates) and selectivities.")] = None,
    searcher: Annotated[str, typer.Option(help="The algorithm that finds the plan; see docs/optimizer.md.")] = "",
    format_: Annotated[str, typer.Option("--format", help="text, json or svg.")] = "text",
    what_if: Annotated[str, typer.Option(help="A SELECT: show what this query would add.")] = "",
    set_: Settings = None,
) -> None:
    options = given_options([*(set_ or ()), *([f"searcher={searcher}"] if searcher else [])])
    if (pipeline is None) == (home is None):
        raise typer.BadParameter("name either a pipeline or the --home of a running engine", param_hint="PIPELINE.SQL")
    given = {"--statistics": statistics, "--searcher": searcher, "--what-if": what_if, "--set": set_}
    if home is not None and (other := next((name for name, value in given.items() if value), None)):
        raise typer.BadParameter("it is not for --home: a running engine shows its active plan", param_hint=other)
    with reporting(None):
        if home is not None:
            text = _plan_of_engine(home, format_, timeout)
        else:
            from watersmeet.options import read_options
            from watersmeet.pipeline import Pipeline

            assert pipeline is not None
            declared = Pipeline.read(text_of(pipeline), pipeline, read_options(options)[0])
            known = text_of(statistics) if statistics else None
            text = what_one_more_adds(declared, what_if, known) if what_if else show_plan(declared, known, format_)
        typer.echo(visible_lines(text), nl=format_ != "svg")


def _plan_of_engine(home: Path, kind: str, timeout: float) -> str:
    from watersmeet.control.mailbox import Mailbox, Request
    from watersmeet.control.stats import check_home

    check_home(home)
    return Mailbox(home.absolute()).ask(Request("explain", format=kind), timeout).text


def show_plan(pipeline: Pipeline, statistics: str | None, kind: str) -> str:
    """The plan for the queries of a pipeline and these statistics (JSON) in one of the formats."""
    from watersmeet.plan.formats import check_format, plan_text

    check_format(kind)
    return plan_text(_planned(pipeline, statistics), kind)


def what_one_more_adds(pipeline: Pipeline, select: str, statistics: str | None) -> str:
    """What one more query costs beside those that exist, and what it would cost alone."""
    from watersmeet.plan.shown_windows import added_text

    query = pipeline.query(WHAT_IF, select)
    every = pipeline.with_query(query)
    before = _planned(pipeline, statistics, every) if pipeline.queries else None
    after = _planned(every, statistics)
    alone = _planned(replace(pipeline, queries={WHAT_IF: query}), statistics, every)
    cost_before = before.whole_cost if before else 0.0
    added = after.whole_cost - cost_before
    old = {(step.start, step.joined, step.store) for step in before.steps} if before else set()
    new = [step for step in after.steps if (step.start, step.joined, step.store) not in old]
    shown = after.amount
    lines = [
        f"cost now {shown(cost_before)}, with the query {shown(after.whole_cost)}: it adds {shown(added)}",
        f"alone it would cost {shown(alone.whole_cost)}; sharing saves {shown(alone.whole_cost - added)}",
    ]
    if alone.starts and after.assumed.text:
        lines.append(f"assumed, because it is not known yet: {after.assumed.text}")
    if alone.starts:
        lines.append(f"{len(new)} new steps" + (":" if new else ""))
    lines += [
        f"  {step.start}: {step.joined} → {step.store} on {' and '.join(step.on)}: {shown(step.cost)}" for step in new
    ]
    lines += added_text(WHAT_IF, (after.windows, after.slices), (before.windows, before.slices) if before else ((), ()))
    return "\n".join(lines)


def _planned(pipeline: Pipeline, statistics: str | None, every: Pipeline | None = None) -> RenderedPlan:
    """The plan for the queries of a pipeline. The statistics may also be about streams that only `every` one reads."""
    from watersmeet.optimize.statistics import Statistics, read_statistics
    from watersmeet.plan.planner import START, make_plan, window_seconds

    queries = tuple(pipeline.queries.values())
    windows = window_seconds((every or pipeline).queries.values()) | window_seconds(queries)
    known = Statistics() if statistics is None else read_statistics(statistics, windows)
    return make_plan(START, tuple(pipeline.streams.values()), queries, pipeline.options, known).rendered()
