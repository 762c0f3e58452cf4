"""The commands that read a home or send requests to the engine that runs on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.arguments import HOME, TIMEOUT, Format, Home, Timeout, check_format, help_text, text_of
from watersmeet.cli.errors import reporting
from watersmeet.cli.tables import (
    FiguresTable,
    TableColumn,
    count_text,
    print_table,
    rejected_folder,
    seconds_text,
    set_aside_text,
    state_text,
    suspended_text,
)
from watersmeet.terminal import json_text, visible

if TYPE_CHECKING:
    from watersmeet.control.changes import Change
    from watersmeet.control.mailbox import Reply, Request
    from watersmeet.control.stats import QueryStats, Stats

ADD_HELP = help_text(
    "Add queries: one or more CREATE QUERY statements, or a file of them. If no engine runs, they are active from the "
    "next start on.",
    "All are active from the same tick, or none is. With BACKFILL (CREATE QUERY name BACKFILL AS …) a query also "
    "emits the results among rows that were stored before.",
    examples=(
        'watersmeet add --home state "CREATE QUERY hot AS SELECT … FROM bids [RANGE 10 SECONDS] b, …"',
        "watersmeet add --home state more.sql",
    ),
)
DROP_HELP = help_text(
    "Drop queries: all that are named, or none. Their result files stay. The engine need not run.",
    examples=("watersmeet drop --home state hot rivals",),
)
RESUME_HELP = help_text(
    "Resume suspended queries: all that are named, or none. They are active from the next tick on; the command shows "
    "of which ticks results are missing. The engine need not run.",
    examples=("watersmeet resume --home state hot",),
)
LIST_HELP = help_text(
    "List the queries of a home: streams, first tick, number of results. The engine need not run.",
    examples=("watersmeet list --home state",),
)
STATS_HELP = help_text(
    "Show the counts of a home: rows, rows and files set aside, results, failed values, failures of predicates, size "
    "of the state, durations of ticks and changes. The engine need not run.",
    examples=("watersmeet stats --home state --format json",),
)
RETRY_HELP = help_text(
    "Read files again that were set aside because they could not be read, of all streams or of those named.",
    "They are read with the next tick, or at the next start. No file is read twice: what was read before is left out.",
    examples=("watersmeet retry-rejected --home state", "watersmeet retry-rejected bids --home state"),
)


def add(
    statements: Annotated[
        str, typer.Argument(metavar="SQL|FILE.SQL", show_default=False, help="CREATE QUERY statements, or a file.")
    ],
    home: Home = HOME,
    timeout: Timeout = TIMEOUT,
) -> None:
    with reporting(None):
        path = Path(statements)
        is_file = statements.endswith(".sql") and "\n" not in statements
        script = text_of(path) if is_file else statements
        folder = path.absolute().parent if is_file else Path.cwd()
        _change(home, script, str(path) if is_file else "", folder, timeout)


def drop(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", show_default=False, help="Queries.")],
    home: Home = HOME,
    timeout: Timeout = TIMEOUT,
) -> None:
    with reporting(None):
        _check_names(names)
        _change(home, " ".join(f"DROP QUERY {name};" for name in names), "", Path.cwd(), timeout)


def _check_names(names: list[str]) -> None:
    from watersmeet.model.stream import check_name

    for name in names:
        check_name("query", name)


def _change(home: Path, script: str, file: str, folder: Path, timeout: float) -> None:
    from watersmeet.control.changes import read_changes
    from watersmeet.control.mailbox import Request
    from watersmeet.control.stopped_home import declared_in
    from watersmeet.sql import CreateQuery, DropQuery, parse_script

    statements = parse_script(script, file, of_queries=True)  # a syntax error need not go to the engine
    request = Request("change", script=script, file=file, folder=str(folder))
    answer = _send(
        home, request, timeout, lambda: read_changes(script, file, str(folder), declared_in(home.absolute()))
    )
    for statement in statements:
        if isinstance(statement, CreateQuery | DropQuery):
            is_now = "active" if isinstance(statement, CreateQuery) else "dropped"
            after = f" ({answer.latency:.2f} s after the request)" if answer.latency else ""
            typer.echo(f"{statement.name} is {is_now} from tick {answer.tick}{after}")


def _send(home: Path, request: Request, timeout: float, changes: Callable[[], tuple[Change, ...]]) -> Reply:
    """Send a request to the engine that runs on a home; without one, write the changes into the log of the home."""
    import time

    from watersmeet.control.changes import ChangeRequest
    from watersmeet.control.mailbox import Mailbox, Reply
    from watersmeet.control.stats import check_home
    from watersmeet.control.stopped_home import change_stopped, is_a_home
    from watersmeet.home.lock import is_running

    check_home(home)
    home = home.absolute()
    if is_running(home) or not is_a_home(home):
        return Mailbox(home).ask(request, timeout)
    done = change_stopped(home, ChangeRequest(time.monotonic(), changes()))
    typer.echo("no engine is running: the change is active from the next start on")
    return Reply(done.tick, text=done.text)


def resume(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", show_default=False, help="Suspended queries.")],
    home: Home = HOME,
    timeout: Timeout = TIMEOUT,
) -> None:
    with reporting(None):
        from watersmeet.control.changes import Resume
        from watersmeet.control.mailbox import Request

        _check_names(names)
        request = Request("resume", script=" ".join(names))
        answer = _send(home, request, timeout, lambda: tuple(Resume(name) for name in names))
        for name in names:
            typer.echo(f"{name} is active from tick {answer.tick}")
        typer.echo(answer.text)


def list_(home: Home = HOME, format_: Format = "text") -> None:
    check_format(format_)
    with reporting(None):
        from watersmeet.control.stats import stats_of_home

        listed = stats_of_home(home).queries
        if format_ == "json":
            typer.echo(json_text([asdict(query) for query in listed]))
        else:
            print_table(_query_table(listed))
            _print_waiting(listed)
            _print_suspended(listed, home)


def stats(home: Home = HOME, format_: Format = "text") -> None:
    check_format(format_)
    with reporting(None):
        from watersmeet.control.stats import stats_of_home

        found = stats_of_home(home)
        if format_ == "json":
            typer.echo(json_text(found.as_json()))
        else:
            _print_stats(found, home)


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


def _query_table(listed: Sequence[QueryStats]) -> FiguresTable:
    joins = TableColumn("joins", text=True, leaves=1)
    table = FiguresTable("query", "since tick", "results", "activated after", joins)
    for query in listed:
        since = f"{query.since:,}" if query.in_force else f"{query.since:,} (next)"
        after = "–" if query.latency is None else f"{query.latency:.2f} s"
        what = f"{query.joins}{' (backfilled)' if query.backfill else ''}"
        name = query.name if query.suspended is None else f"{query.name} (suspended)"
        table.add_row(name, since, f"{query.results:,}", after, what)
    return table


def _print_waiting(listed: Sequence[QueryStats]) -> None:
    for query in listed:
        if query.outbox is not None:
            waiting = query.outbox
            why = f"; {waiting.tries} tries failed: {visible(waiting.reason)}" if waiting.tries else ""
            what = f"{waiting.rows:,} results of {waiting.ticks:,} ticks wait for {visible(waiting.target)}"
            typer.echo(f"{query.name}: {what}{why}")


def _print_suspended(listed: Sequence[QueryStats], home: Path) -> None:
    for query in listed:
        if query.suspended is not None:
            typer.echo(suspended_text(query.name, query.suspended, home))


def _print_stats(found: Stats, home: Path) -> None:
    from watersmeet.control.stats import spread

    state = "running" if found.running else "stopped"
    typer.echo(f"{state} · tick {found.tick:,} · {state_text(found)}")
    ticks = [tick.total for tick in found.ticks]
    for title, one in (("ticks", spread(ticks)), ("changes activated after", spread(found.deployments))):
        if one is not None:
            last, median, longest = (seconds_text(one[key]) for key in ("last", "median", "longest"))
            typer.echo(f"{title}: last {last}, median {median}, longest {longest} (of {one['count']:,})")
    streams = FiguresTable("stream", "rows", TableColumn("set aside", text=True))
    for stream in found.streams:
        streams.add_row(stream.name, f"{stream.rows:,}", set_aside_text(stream.set_aside) or "–")
    stores = FiguresTable("store", "rows", "bytes", "buckets")
    for store in found.stores:
        stores.add_row(store.name, f"{store.rows:,}", f"{store.bytes:,}", f"{store.buckets:,}")
    queries = FiguresTable("query", "results", "failed values")
    for query in found.queries:
        queries.add_row(query.name, f"{query.results:,}", f"{query.failed_values:,}")
    for table in (streams, stores, queries):
        if table.row_count:
            print_table(table)
    for stream in found.streams:
        if rejected := rejected_folder(home, stream):
            typer.echo(f"{stream.name}: what was set aside is in {rejected}")
    _print_waiting(found.queries)
    _print_suspended(found.queries, home)
    for name, problem in found.predicates.items():
        typer.echo(f"predicate {name}: {visible(problem)}")
