"""A broker for all tests of `./run test-connectors`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.kafka import KafkaBroker, running_broker
from tests.support.faults.fixtures import say

__all__ = ["say"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as started:
        yield started
