"""How the command line shows errors: a message instead of a traceback, and an exit code."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from watersmeet import __version__
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.files import make_home, private
from watersmeet.terminal import visible, visible_lines


class ExitCode(IntEnum):
    """How a command ends that has not done its work; 0 also stands for a stop by Ctrl-C, SIGTERM or SIGHUP."""

    ERROR = 1  # with an explanation
    INTERNAL = 70  # an error of Watersmeet itself
    SIGNAL = 128  # and the number of the signal: interrupted before anything ran, or twice


class Interrupted(KeyboardInterrupt):
    """A signal that is handled like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def reporting(home: Path | None) -> Iterator[None]:
    """Show errors to the user, each kind with its exit code."""
    try:
        yield
    except WatersmeetError as error:
        show_error(error)
        if isinstance(error, RunError) and home is not None and (home / layout.SPARK_LOG).exists():
            typer.echo(f"Spark's log is {(home / layout.SPARK_LOG).absolute()}", err=True)
        raise typer.Exit(ExitCode.ERROR) from None
    except KeyboardInterrupt as interrupt:
        typer.echo("\ninterrupted before the first tick; nothing was changed", err=True)
        number = interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT
        raise typer.Exit(ExitCode.SIGNAL + number) from None
    except (typer.Exit, typer.BadParameter, BrokenPipeError):
        raise
    except PermissionError as problem:
        show_error(
            WatersmeetError(
                f"this user may not use {problem.filename or 'a file'}: {problem.strerror}",
                hint="a home is for the user alone whose engine runs on it; run this as that user",
            )
        )
        raise typer.Exit(ExitCode.ERROR) from None
    except Exception as problem:
        log = _log_traceback(home)
        typer.echo(f"internal error: {type(problem).__name__}: {visible(str(problem)[:500])}", err=True)
        typer.echo(f"This should not happen. The details are in {log}; please report them.", err=True)
        raise typer.Exit(ExitCode.INTERNAL) from None


def show_error(error: WatersmeetError) -> None:
    console = Console(stderr=True)
    text = visible_lines(str(error))
    if console.is_terminal:
        console.print(Panel(Text(text), title="error", title_align="left", border_style="red"))
    else:
        # No frame and no wrapping: a log, a test or an editor reads this.
        sys.stderr.write(f"error: {text}\n")


def _log_traceback(home: Path | None) -> Path:
    """Write the traceback into the home, or into the folder for temporary files; returns the file."""
    text = f"{datetime.datetime.now(datetime.UTC).isoformat()} watersmeet {__version__} {sys.argv[1:]}\n"
    text += traceback.format_exc() + "\n"
    if home is not None:
        with contextlib.suppress(OSError):
            make_home(home)
            log = home / layout.ERROR_LOG
            with open(log, "a", opener=_private_no_link) as file:
                file.write(text)
            return log.absolute()
    # A new file with a name that nobody can guess: others may write into this folder too.
    handle, name = tempfile.mkstemp(prefix="watersmeet-error-", suffix=".log", text=True)
    with open(handle, "w") as file:
        file.write(text)
    return Path(name)


def _private_no_link(path: str, flags: int) -> int:
    return private(path, flags | os.O_NOFOLLOW)
