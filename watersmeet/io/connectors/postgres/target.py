"""INTO postgres: the results of a tick and its number in one transaction.

The number of the newest tick of each home, query and target is a row of the table `watersmeet_ticks`, in the schema of
the target. A transaction begins with that row: if it has this tick or a later one, the results are there already. The
row is locked until the transaction ends. So a process that was cut off and is not dead yet either comes first, and the
results are there, or it waits and finds that they are.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pyarrow as pa
from psycopg import sql

from watersmeet import points
from watersmeet.errors import RunError
from watersmeet.io.connectors.postgres.columns import Found, assigned, differences, type_of
from watersmeet.io.connectors.postgres.copy_text import SIGN_FOR_NUL, CopyText
from watersmeet.io.connectors.postgres.settings import connection_settings, table_name, upsert_keys
from watersmeet.io.connectors.protocol import Sender, Undeliverable
from watersmeet.io.connectors.secrets import redacted

TICKS = "watersmeet_ticks"
_PENDING, _ORDER = "watersmeet_pending", "watersmeet_order"
# Classes of errors that another try may not meet: connections, resources, operators, conflicts, a server that is not
# (or no longer) the one to write to.
_PASSING = ("08", "53", "57", "58", "40", "55", "25006")
_log = logging.getLogger("watersmeet")


class PostgresTarget:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._schema, self._name = table_name(sender.query, sender.sink)
        self._table = sql.Identifier(self._schema, self._name)
        self._ticks = sql.Identifier(self._schema, TICKS)
        self._keys = upsert_keys(sender.query, sender.sink, sender.schema.names)
        self._sent = (sender.home, sender.query, self._name)  # by which the tick is remembered
        self._columns: list[str] = []  # of the table, in the order of the results
        with _explained():
            self._connection = psycopg.connect(autocommit=True, **connection_settings(sender.sink))

    def recover(self) -> int:
        with _explained():
            self._connection.execute("SET TIME ZONE 'UTC'")
            self._connection.execute("SET client_encoding = 'UTF8'")
            with self._connection.transaction():
                self._create_ticks()
                self._check_or_create()
                found = self._connection.execute(
                    sql.SQL("SELECT tick FROM {} WHERE (home, query, target) = (%s, %s, %s)").format(self._ticks),
                    self._sent,
                ).fetchone()
        return int(found[0]) if found else 0

    def commit(self, tick: int, rows: Iterator[pa.RecordBatch]) -> None:
        with _explained(), self._connection.transaction():
            # The outbox forgets this tick once it is committed, so the server must not.
            self._connection.execute("SET LOCAL synchronous_commit = on")
            if self._claims(tick):
                self._upsert(rows) if self._keys else self._copy(self._table, rows)
                points.reach("target.written")

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    # The transaction of a tick -------------------------------------------------------------------

    def _claims(self, tick: int) -> bool:
        """Whether the results of the tick are still to be written."""
        claim = sql.SQL(
            "INSERT INTO {ticks} AS known (home, query, target, tick) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (home, query, target) DO UPDATE SET tick = excluded.tick, at = now() "
            "WHERE known.tick < excluded.tick RETURNING tick"
        ).format(ticks=self._ticks)
        found = self._connection.execute(claim, (*self._sent, tick)).fetchone()
        return found is not None

    def _copy(self, table: sql.Identifier, rows: Iterator[pa.RecordBatch]) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, _listed(self._columns))
        text = CopyText()
        try:
            with self._connection.cursor().copy(statement) as copy:
                for batch in rows:
                    copy.write(memoryview(text.of(batch)))
        finally:
            text.close()
        if text.replaced:
            _log.warning(
                "query %s: %d strings have a NUL, which Postgres cannot store; it is written as %s",
                self._sender.query,
                text.replaced,
                SIGN_FOR_NUL,
            )

    def _upsert(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Insert or replace by key; of several results with one key the last one counts. No key with a NULL in it
        equals another one, as everywhere in SQL."""
        pending, columns = sql.Identifier(_PENDING), _listed(self._columns)
        keys, values = self._key_columns(), [name for name in self._columns if name not in self._key_columns()]
        self._connection.execute(
            sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                pending, columns, self._table
            )
        )
        self._connection.execute(
            sql.SQL("ALTER TABLE {} ADD COLUMN {} bigserial").format(pending, sql.Identifier(_ORDER))
        )
        self._copy(pending, rows)
        replaced = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in values)
        action = sql.SQL("DO UPDATE SET {}").format(replaced) if values else sql.SQL("DO NOTHING")
        no_key = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(sql.Identifier(key)) for key in keys)
        self._connection.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM (SELECT *, row_number() OVER "
                "(PARTITION BY {keys} ORDER BY {order} DESC) AS watersmeet_rank FROM {pending}) AS ranked "
                "WHERE watersmeet_rank = 1 OR {no_key} ON CONFLICT ({keys}) {action}"
            ).format(
                table=self._table,
                columns=columns,
                keys=_listed(keys),
                order=sql.Identifier(_ORDER),
                pending=pending,
                no_key=no_key,
                action=action,
            )
        )

    def _key_columns(self) -> list[str]:
        names = self._sender.schema.names
        return [self._columns[names.index(key)] for key in self._keys]

    # Tables --------------------------------------------------------------------------------------

    def _create_ticks(self) -> None:
        # Two that create a table at once would collide in the catalog, whatever IF NOT EXISTS says; and who may not
        # create one may not say that either, also where it exists.
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('watersmeet'), 0)")
        if not self._exists("to_regnamespace", sql.Identifier(self._schema)):
            self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
        if not self._exists("to_regclass", self._ticks):
            self._connection.execute(
                sql.SQL(
                    "CREATE TABLE {} (home text, query text, target text, tick bigint NOT NULL, "
                    "at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (home, query, target))"
                ).format(self._ticks)
            )

    def _exists(self, lookup: LiteralString, name: sql.Identifier) -> bool:
        quoted = name.as_string(self._connection)
        found = self._connection.execute(sql.SQL("SELECT {}(%s) IS NOT NULL").format(sql.SQL(lookup)), (quoted,))
        return bool(next(iter(found))[0])

    def _check_or_create(self) -> None:
        schema = self._sender.schema
        found = self._existing()
        if not found:
            parts = [
                sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(type_of(field.type))) for field in schema
            ]
            if self._keys:
                parts.append(sql.SQL("UNIQUE ({})").format(_listed(self._keys)))
            self._connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table, sql.SQL(", ").join(parts)))
            self._columns = list(schema.names)
            return
        if reasons := differences(schema, found):
            raise Undeliverable(
                f"the table {self._schema}.{self._name} cannot take the results of query {self._sender.query}: "
                + "; ".join(reasons),
                hint="change the table or the query, or name another table after INTO",
            )
        names = assigned(schema, found)
        self._columns = [names[name] for name in schema.names]
        if self._keys and sorted(self._key_columns()) not in self._unique_columns():
            raise Undeliverable(
                f"the table {self._schema}.{self._name} has no unique index on {', '.join(self._key_columns())}, "
                "the columns of the option upsert",
                hint="create one, or let the engine create the table",
            )

    def _existing(self) -> list[Found]:
        """The columns of the table, if there is one."""
        rows = self._connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod), NOT attnotnull OR atthasdef OR attidentity <> '' "
            "FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid "
            "WHERE relnamespace = %s::regnamespace AND relname = %s AND relkind IN ('r', 'p', 'f') "
            "AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (sql.Identifier(self._schema).as_string(self._connection), self._name),
        ).fetchall()
        return [Found(*row) for row in rows]

    def _unique_columns(self) -> list[list[str]]:
        rows = self._connection.execute(
            "SELECT array_agg(attname::text ORDER BY attname) FROM pg_index JOIN pg_attribute "
            "ON attrelid = indrelid AND attnum = ANY(indkey) "
            "WHERE indrelid = %s::regclass AND indisunique AND indpred IS NULL AND indexprs IS NULL "
            "GROUP BY indexrelid",
            (self._table.as_string(self._connection),),
        ).fetchall()
        return [sorted(row[0]) for row in rows]


def _listed(names: list[str] | tuple[str, ...]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What Postgres says, without secrets: an error that another try may not meet, or one that it would."""
    try:
        yield
    except psycopg.Error as problem:
        text = redacted(" ".join(str(problem).split()))
        state = problem.sqlstate or ""
        if isinstance(problem, psycopg.OperationalError) or not state or state.startswith(_PASSING):
            raise RunError(f"Postgres: {text}") from None
        raise Undeliverable(f"Postgres rejects the results: {text}") from None
