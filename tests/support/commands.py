"""The command line called as a function, which saves the start of a process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from watersmeet.cli.app import app


def command(*arguments: object) -> Result:
    # A fixed width, because help, tables and usage errors are wrapped.
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "240"})
