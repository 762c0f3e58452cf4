"""Tables and numbers for output."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from watersmeet.home.manifest import Suspension
from watersmeet.terminal import visible

WIDE = 1000


def table_of(first: str, *rest: str) -> Table:
    """A table with a column of names and columns of figures."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold cyan")
    table.add_column(first, style="bold", no_wrap=True, min_width=16)
    for title in rest:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; in a file or a pipe, as wide as it needs to be."""
    console = Console()
    (console if console.is_terminal else Console(width=WIDE)).print(table)


def set_aside_text(set_aside: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in set_aside.items() if count)


def suspended_text(query: str, suspended: Suspension) -> str:
    return f"{query} is suspended since tick {suspended.tick}: {visible(suspended.reason)}"


def count_text(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def seconds_text(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def bytes_text(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
