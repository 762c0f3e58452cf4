"""How the command line shows errors: a message instead of a traceback, and an exit code."""

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
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.home import layout


@contextlib.contextmanager
def reporting(home: Path | None) -> Iterator[None]:
    """Show errors to the user, each kind with its exit code."""
    try:
        yield
    except WatersmeetError as error:
        show_error(error)
        if isinstance(error, RunError) and home is not None and (home / layout.SPARK_LOG).exists():
            typer.echo(f"Spark's log is {(home / layout.SPARK_LOG).absolute()}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("\ninterrupted before the first tick; nothing was changed", err=True)
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
    """Into the home, or where there is none or it cannot be written, into the folder for temporary files."""
    text = f"{datetime.datetime.now(datetime.UTC).isoformat()} watersmeet {__version__} {sys.argv[1:]}\n"
    text += traceback.format_exc() + "\n"
    if home is not None:
        with contextlib.suppress(OSError):
            home.mkdir(parents=True, exist_ok=True)
            return _append(home / layout.ERROR_LOG, text)
    return _append(Path(tempfile.gettempdir()) / "watersmeet-error.log", text)


def _append(log: Path, text: str) -> Path:
    with log.open("a") as file:
        file.write(text)
    return log.absolute()
