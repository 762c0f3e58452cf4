"""Tables and numbers for output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from watersmeet.home import layout
from watersmeet.home.manifest import Suspension
from watersmeet.terminal import resume_hint, visible

if TYPE_CHECKING:
    from watersmeet.control.stats import Stats, StreamStats

WIDE = 1000
_GAP = 3  # between two columns of SIMPLE_HEAD
_NAMES = 16  # width of a column of names, so that tables below each other are alike
_LEAST = 12  # of a text, less says nothing


@dataclass(frozen=True)
class TableColumn:
    """A column of figures, unless it has text.

    A text may be cut, so that figures need not be. The column with the lowest `leaves` above 0 is left out first."""

    title: str
    text: bool = False
    leaves: int = 0
    style: str = ""


class FiguresTable:
    """A table with a column of names and columns of figures.

    In a narrow terminal optional columns give way first, then texts are cut; figures stay whole."""

    def __init__(self, names: str, *columns: TableColumn | str) -> None:
        given = [TableColumn(column) if isinstance(column, str) else column for column in columns]
        self._columns = [TableColumn(names, text=True, style="bold"), *given]
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        self._rows.append(cells)

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
        widths = self._widths(options.max_width)
        for at, width in widths.items():
            column = self._columns[at]
            table.add_column(column.title, style=column.style, no_wrap=True, width=width)
            table.columns[-1].justify = "left" if column.text else "right"
        for cells in self._rows:
            table.add_row(*(Text(cells[at]) for at in widths))
        yield table

    def _widths(self, limit: int) -> dict[int, int]:
        """The columns that are shown, with their widths."""
        widths = {
            at: max(cell_len(column.title), *(cell_len(cells[at]) for cells in self._rows), 0 if at else _NAMES)
            for at, column in enumerate(self._columns)
        }

        def excess(narrowed: set[int]) -> int:
            taken = sum(min(width, _LEAST) if at in narrowed else width for at, width in widths.items())
            return taken + _GAP * (len(widths) - 1) - limit

        texts = [at for at in reversed(widths) if self._columns[at].text]
        optional = sorted((self._columns[at].leaves, at) for at in widths if self._columns[at].leaves)
        for _, at in optional:
            if excess({at for at in texts if self._columns[at].leaves}) > 0:
                del widths[at]
        for at in texts:
            if at in widths and (over := excess(set())) > 0:
                widths[at] = max(min(widths[at], _LEAST), widths[at] - over)
        return widths


def print_table(table: RenderableType) -> None:
    """Print a table as wide as the terminal; in a file or a pipe, as wide as it needs to be."""
    console = Console()
    console.print()
    (console if console.is_terminal else Console(width=WIDE)).print(table)


def set_aside_text(set_aside: Mapping[str, int]) -> str:
    """What was set aside, by reason; some reasons count files or messages, in the plural."""
    named = {reason.replace("_", " "): count for reason, count in set_aside.items() if count}
    return ", ".join(count_text(count, reason.removesuffix("s"), reason) for reason, count in named.items())


def rejected_folder(home: Path, stream: StreamStats) -> Path | None:
    """Where what was set aside of a stream is found; None if nothing was."""
    found = layout.rejected(home, stream.name)
    return found if set_aside_text(stream.set_aside) and found.exists() else None


def suspended_text(query: str, suspended: Suspension, home: Path | None = None) -> str:
    """That a query is suspended, since when and why; with a home, also what to do."""
    hint = f"; {resume_hint(home, query)}" if home is not None else ""
    return f"{query} is suspended since tick {suspended.tick}: {visible(suspended.reason)}{hint}"


def count_text(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def seconds_text(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def short_count(number: float) -> str:
    """A count in at most seven characters, below a quadrillion."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:,.{0 if number >= 100 * size else 1}f} {unit}"
    return f"{number:,.0f}"


def state_text(stats: Stats) -> str:
    """The size of the state, and of what tasks keep in memory for windows, if they do."""
    kept = f" + {bytes_text(stats.memory_bytes)} in memory" if stats.memory_bytes else ""
    return f"state {bytes_text(stats.state_bytes)}{kept}"


def bytes_text(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
