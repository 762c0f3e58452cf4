"""`INTO postgres 'schema.table' WITH (host = …, password = env('…'), upsert = '…')`."""

from __future__ import annotations

from watersmeet.io.connectors.options import check_installed
from watersmeet.io.connectors.postgres.settings import check_identifier, check_settings, table_name, upsert_keys
from watersmeet.io.connectors.protocol import Sender, Target
from watersmeet.model import Output, Sink


class PostgresConnector:
    def check(self, query: str, sink: Sink, outputs: tuple[Output, ...]) -> None:
        check_installed(f"query {query}", "INTO postgres", ["psycopg"], "postgres")
        check_settings(query, sink)
        table_name(query, sink)
        for output in outputs:
            check_identifier(query, output.name)
        upsert_keys(query, sink, [output.name for output in outputs])

    def open(self, sender: Sender) -> Target:
        from watersmeet.io.connectors.postgres.target import PostgresTarget

        return PostgresTarget(sender)


CONNECTOR = PostgresConnector()
