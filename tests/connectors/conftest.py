"""Servers for all tests of `./run test-connectors`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.kafka import KafkaBroker, running_broker
from tests.support.stores.postgres_server import PostgresServer, running_server


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as started:
        yield started


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """The server, with nothing in it."""
    postgres_server.clear()
    return postgres_server
