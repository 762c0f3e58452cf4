"""Servers for all tests of `./run test-connectors`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stores.postgres_server import PostgresServer, running_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """The server, with nothing in it."""
    postgres_server.clear()
    return postgres_server
