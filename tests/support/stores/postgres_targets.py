"""Targets that are tables of a test's server, closed when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.stores.postgres_server import PostgresServer
from tests.support.stores.results import SCHEMA, sender
from watersmeet.io.connectors.postgres.connector import CONNECTOR
from watersmeet.io.connectors.protocol import Target
from watersmeet.model import Sink


def sink(server: PostgresServer, table: str = "results", **options: str) -> Sink:
    return Sink("postgres", table, tuple({**server.settings, **options}.items()))


def opened(server: PostgresServer, table: str = "results", schema: pa.Schema = SCHEMA, **options: str) -> Target:
    target = CONNECTOR.open(sender(sink(server, table, **options), schema=schema))
    _open.append(target)
    return target


_open: list[Target] = []


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    """Also where a test fails."""
    yield
    close_targets()


def close_targets() -> None:
    while _open:
        _open.pop().close()
