"""`watersmeet plans`: the history of the plan, of a running or a stopped engine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from watersmeet.cli.arguments import HOME, Format, Home, check_format, help_text
from watersmeet.cli.errors import reporting
from watersmeet.cli.tables import print_table
from watersmeet.errors import WatersmeetError
from watersmeet.terminal import json_text, visible

if TYPE_CHECKING:
    from watersmeet.adapt.decisions import Decision

HELP = help_text(
    "Show the history of the plan: each decision with its reason, gain and price.",
    examples=("watersmeet plans --home shop", "watersmeet plans --home shop --format json"),
)


def plans(home: Home = HOME, format_: Format = "text") -> None:
    check_format(format_)
    with reporting(None):
        from watersmeet.adapt.decisions import decisions

        if not home.is_dir():
            raise WatersmeetError(f"the home {home} does not exist", hint="name the folder of an engine: --home DIR")
        history = decisions(home)
        if format_ == "json":
            typer.echo(json_text([asdict(decision) for decision in history]))
        elif history:
            print_table(as_table(history))
        else:
            typer.echo(f"{home} has no plan yet")


def as_table(history: list[Decision]) -> Table:
    table = Table(
        title="CPU time: of a tick (active, new), in all (gain, price); error: median / worst of the estimates"
    )
    for name in ("tick", "epoch", "kind"):
        table.add_column(name, no_wrap=True)
    table.add_column("reason", ratio=1)
    for name in ("active", "new", "gain", "price"):
        table.add_column(name, justify="right")
    table.add_column("adopted")
    table.add_column("by")
    table.add_column("error", justify="right")
    for one in history:
        stores = f" (materializes {', '.join(one.materialized)})" if one.materialized else ""
        table.add_row(
            str(one.tick),
            str(one.epoch),
            one.kind,
            Text(visible(one.reason + stores)),
            "–" if one.cost_in_force is None else _amount(one, one.cost_in_force),
            _amount(one, one.cost),
            _amount(one, one.gain) if one.cost_in_force is not None else "–",
            _amount(one, one.price) if one.cost_in_force is not None else "–",
            "yes" if one.adopted else "no",
            f"{one.searcher}, {one.seconds:.2f} s",
            f"{one.median_error:.1f} / {one.worst_error:.1f}",
        )
    return table


def _amount(decision: Decision, cost: float) -> str:
    from watersmeet.plan.units import TUPLES, seconds_text

    return f"{cost:,.0f} tuples" if decision.unit == TUPLES else seconds_text(cost)
