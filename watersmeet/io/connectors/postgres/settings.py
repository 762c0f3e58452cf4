"""The options of INTO postgres: how to connect, and what to do with equal keys."""

from __future__ import annotations

from typing import Any

from watersmeet.errors import ModelError
from watersmeet.io.connectors.options import Option, OptionTable
from watersmeet.io.connectors.secrets import resolved
from watersmeet.model import Sink
from watersmeet.model.secrets import HINT, referenced

# Names of libpq that are passed on. What is not given comes from its environment variables, as with psql.
_CONNECTION = (
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "passfile",
    "service",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "channel_binding",
    "target_session_attrs",
    "gssencmode",
    "krbsrvname",
    "connect_timeout",
    "keepalives_idle",
    "tcp_user_timeout",
    "application_name",
)
DSN, UPSERT = "dsn", "upsert"
INTO_POSTGRES = OptionTable("INTO postgres", (Option(DSN), Option(UPSERT)), _CONNECTION)
# A server that is gone without a word is noticed; whoever looks at its connections sees who this is.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "tcp_user_timeout": "60000",
    "application_name": "watersmeet",
}
_LONGEST_NAME = 63  # bytes; Postgres cuts longer ones


def table_name(query: str, sink: Sink) -> tuple[str, str]:
    """Schema and table. Names are taken as they are written, upper and lower case included."""
    schema, dot, table = (sink.path or "").rpartition(".")
    if not table or "." in schema or bool(dot) != bool(schema):
        raise ModelError(
            f"query {query}: {sink.path or ''!r} does not name a table",
            hint="write INTO postgres 'schema.table' WITH (…)",
        )
    for name in (schema, table):
        check_identifier(query, name)
    return schema or "public", table


def check_identifier(query: str, name: str) -> None:
    if len(name.encode()) > _LONGEST_NAME or "\0" in name:
        raise ModelError(
            f"query {query}: {name!r} cannot be a name in Postgres",
            detail=f"A name has at most {_LONGEST_NAME} bytes.",
            hint="give it a shorter name, for example with AS",
        )


def upsert_keys(query: str, sink: Sink, names: list[str]) -> tuple[str, ...]:
    """The columns of the option upsert, as the query names them."""
    text = dict(sink.options).get(UPSERT, "")
    known = {name.lower(): name for name in names}
    keys = [part.strip() for part in text.split(",") if part.strip()]
    for key in keys:
        if key.lower() not in known:
            raise ModelError(
                f"query {query}: the option upsert names {key}, which is no column of the query",
                detail=f"Its columns: {', '.join(names)}.",
            )
    found = tuple(dict.fromkeys(known[key.lower()] for key in keys))
    if UPSERT in dict(sink.options) and not found:
        raise ModelError(
            f"query {query}: the option upsert names no column",
            hint="write upsert = 'column, …', or leave it out to insert every result",
        )
    return found


def connection_settings(sink: Sink) -> dict[str, Any]:
    """What psycopg connects with, secrets included: only for the process that connects."""
    from psycopg.conninfo import conninfo_to_dict

    options = resolved((name, value) for name, value in sink.options if name != UPSERT)
    return {**_DEFAULTS, **conninfo_to_dict(options.pop(DSN, "")), **options}


def check_settings(query: str, sink: Sink) -> None:
    """Reject what libpq would not understand, and a password that everybody could read."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    INTO_POSTGRES.check(f"query {query}", sink.options)
    dsn = dict(sink.options).get(DSN, "")
    if referenced(dsn) is None:
        try:
            given = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            raise ModelError(
                f"query {query}: the option dsn is no connection string of Postgres",
                hint="write dsn = 'host=… dbname=… user=…' or dsn = 'postgresql://user@host/dbname'",
            ) from None
        if "password" in given or "sslpassword" in given:
            raise ModelError(
                f"query {query}: the option dsn has a password in it, which would be stored with the query",
                hint=f"leave it out, and for the option password {HINT}",
            )
