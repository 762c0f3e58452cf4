"""`bench/compare A.json B.json`: what changed from one run to another, figure by figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]


def figures(node: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a tree of JSON with the way to it."""
    if isinstance(node, dict):
        for name, below in node.items():
            yield from figures(below, f"{path}.{name}" if path else str(name))
    elif isinstance(node, list):
        for at, below in enumerate(node):
            yield from figures(below, f"{path}[{at}]")
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path, float(node)


def main(
    a: File,
    b: File,
    at_least: Annotated[float, typer.Option(help="percent of change below which a figure is left out")] = 0.0,
) -> None:
    """Show all figures of two runs and their ratio."""
    loaded = [json.loads(path.read_text()) for path in (a, b)]
    console = Console()
    if loaded[0].get("workload") != loaded[1].get("workload"):
        raise SystemExit(f"these are different workloads: {loaded[0].get('workload')} and {loaded[1].get('workload')}")
    machines = [one.pop("machine", {}) for one in loaded]
    for name in sorted({*machines[0], *machines[1]}):
        values = [machine.get(name) for machine in machines]
        if values[0] != values[1]:
            console.print(f"{name}: {values[0]} → {values[1]}", markup=False)
    before, after = (dict(figures(one)) for one in loaded)
    table = Table("figure", title=str(loaded[0].get("workload")))
    for column in (a.name, b.name, "B ÷ A"):
        table.add_column(column, justify="right")
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            table.add_row(name, _text(one), _text(other), "only in one")
        elif one == other:
            if at_least <= 0:
                table.add_row(name, _text(one), _text(other), "same")
        elif one == 0 or abs(other / one - 1) * 100 >= at_least:
            table.add_row(name, _text(one), _text(other), f"{other / one:.2f} ×" if one else "")
    console.print(table)


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    typer.run(main)
