"""The command line called as a function, which saves the start of a process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from tests.support.waiting import PATIENCE
from watersmeet.cli.app import app

_PATIENT = ("add", "drop", "resume")  # commands that wait for an engine


def command(*arguments: object) -> Result:
    waits = arguments[0] in _PATIENT or (arguments[0] == "explain" and "--home" in arguments)
    if waits and "--timeout" not in arguments:
        arguments = (*arguments, "--timeout", PATIENCE)
    # A fixed width, because help, tables and usage errors are wrapped.
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "240"})
