"""`watersmeet retry-rejected`: read files again that were set aside because they could not be read."""

from __future__ import annotations

from typing import Annotated

import typer

from watersmeet.cli.arguments import HOME, Home, help_text
from watersmeet.cli.errors import reporting
from watersmeet.cli.tables import count_text

HELP = help_text(
    "Read files again that were set aside because they could not be read, of all streams or of those named.",
    "They are read with the next tick, or at the next start. No file is read twice: what was read before is left out.",
    examples=("watersmeet retry-rejected --home state", "watersmeet retry-rejected bids --home state"),
)


def retry_rejected(
    streams: Annotated[
        list[str] | None, typer.Argument(metavar="[STREAM]…", show_default=False, help="Streams; all if none is named.")
    ] = None,
    home: Home = HOME,
) -> None:
    with reporting(None):
        from watersmeet.control.stats import check_home
        from watersmeet.home.lock import is_running
        from watersmeet.runtime.feed.retry_request import request_retry

        check_home(home)
        when = "with the next tick" if is_running(home) else "at the next start"
        found = request_retry(home.absolute(), streams or ())
        for stream, names in found.items():
            typer.echo(f"{stream}: {count_text(len(names), 'file is', 'files are')} read again {when}")
            for name in names:
                typer.echo(f"  {name}")
        if not found:
            typer.echo("no file is set aside")
