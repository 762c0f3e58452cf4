"""What an experiment shows: a table on the terminal, a picture, JSON with the machine's facts, Markdown for the page.

Every figure has files of its own in bench/out/, so one of them can be measured again without the others.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.multistream.inputs import Inputs
from bench.multistream.running import Ran, Run, Worker
from bench.report import OUT, write_json, write_picture

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Bench:
    """What experiments work with."""

    inputs: Inputs
    worker: Worker
    short: bool

    def run(self, run: Run) -> Ran:
        console = Console(stderr=True)
        console.print(f"  {run} …", markup=False, highlight=False)
        return self.worker.run(run)

    def repeated(self, runs: dict[Any, Run]) -> dict[Any, list[Ran]]:
        """Each run, and each again, not the same one twice in a row. One before them warms up."""
        self.run(next(iter(runs.values())))
        rounds = [{label: self.run(run) for label, run in runs.items()} for _ in range(1 if self.short else 2)]
        return {label: [one[label] for one in rounds] for label in runs}


def show(
    bench: Bench, name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], picture: str
) -> None:
    table = Table(title=f"Fig. {name}: {title}")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=None if Console().is_terminal else 160).print(table)
    write_picture(f"multistream-{name}", picture)
    figures = {"title": title, "columns": list(columns), "rows": [list(row) for row in rows], "short": bench.short}
    write_json(f"multistream-{name}", figures)


def markdown(told: dict[str, Any]) -> str:
    """One figure of bench/out/ as a table with a line about where and when it was measured."""
    machine = told["machine"]
    command = "bench/run multistream" + (" --short" if told["short"] else "")
    where = f"{machine['date'][:10]} on {machine['cores']} cores"
    lines = [
        f"**{told['title']}**",
        "",
        f"| {' | '.join(told['columns'])} |",
        "|" + "---|" * len(told["columns"]),
        *(f"| {' | '.join(row)} |" for row in told["rows"]),
        "",
        f"Measured {where} by `{command}`; load at the end {machine['load'][0]:.1f}.",
    ]
    return "\n".join(lines)


def measured() -> dict[str, dict[str, Any]]:
    return {path.stem.split("-")[1]: json.loads(path.read_text()) for path in sorted(OUT.glob("multistream-8*.json"))}


def write_markdown() -> None:
    parts = [f"### Fig. {name}\n\n{markdown(told)}\n" for name, told in measured().items()]
    path = OUT / "multistream.md"
    path.write_text("\n".join(parts))
    print(f"written: {path}")


def fill_page(text: str, tables: dict[str, str]) -> str:
    """The page with each of its `<!-- table NAME -->` … `<!-- end -->` renewed."""
    for name, table in tables.items():
        pattern = rf"(<!-- table {name} -->\n).*?(<!-- end -->)"

        def renewed(found: re.Match[str], table: str = table) -> str:
            return f"{found[1]}{table}\n{found[2]}"

        text = re.sub(pattern, renewed, text, flags=re.DOTALL)
    return text


def write_page() -> None:
    """The tables in docs/multistream.md and its pictures become those of bench/out/."""
    path = DOCS / "multistream.md"
    found = measured()
    path.write_text(fill_page(path.read_text(), {name: markdown(told) for name, told in found.items()}))
    for name in found:
        shutil.copy(OUT / f"multistream-{name}.svg", DOCS / "pictures")
    print(f"written: {path} and pictures/multistream-8*.svg")
