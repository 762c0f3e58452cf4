"""How errors meet a person: what is wrong and what to do, an exit code, and never a traceback."""

from __future__ import annotations

import contextlib
import datetime
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from watersmeet import __version__
from watersmeet.errors import WatersmeetError


@contextlib.contextmanager
def reporting(home: Path | None) -> Iterator[None]:
    """Errors as a person should see them, each kind with its exit code."""
    try:
        yield
    except WatersmeetError as error:
        show_error(error)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("interrupted before the first tick; nothing was changed", err=True)
        raise typer.Exit(130) from None
    except (typer.Exit, typer.BadParameter, BrokenPipeError):
        raise
    except Exception as problem:
        log = _log_traceback(home)
        typer.echo(f"internal error: {type(problem).__name__}: {str(problem)[:500]}", err=True)
        typer.echo(f"This should not happen. The details are in {log}; please report them.", err=True)
        raise typer.Exit(70) from None


def show_error(error: WatersmeetError) -> None:
    console = Console(stderr=True)
    if console.is_terminal:
        console.print(Panel(Text(str(error)), title="error", title_align="left", border_style="red"))
    else:
        # No frame and no wrapping: a log, a test or an editor reads this.
        sys.stderr.write(f"error: {error}\n")


def _log_traceback(home: Path | None) -> Path:
    folder = home if home is not None and home.is_dir() else Path(tempfile.gettempdir())
    log = folder / ("error.log" if folder == home else "watersmeet-error.log")
    with log.open("a") as file:
        file.write(f"{datetime.datetime.now(datetime.UTC).isoformat()} watersmeet {__version__} {sys.argv[1:]}\n")
        file.write(traceback.format_exc() + "\n")
    return log.absolute()
