"""The command line, and a pipeline for it to work on."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support import commands

Command = Callable[..., Result]

GOOD = """
CREATE STREAM orders (id BIGINT, price INT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'data/orders';
CREATE STREAM items (order_id BIGINT, sku STRING, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'data/items';
CREATE QUERY sold INTO csv 'out/sold' AS
SELECT o.id, i.sku FROM orders [RANGE 10 SECONDS] o, items [RANGE 10 SECONDS] i WHERE o.id = i.order_id;
CREATE QUERY dear AS
SELECT o.id, i.sku FROM orders [RANGE 5 SECONDS] o, items [RANGE 5 SECONDS] i WHERE o.id = i.order_id AND o.price > 9;
"""


@pytest.fixture
def command() -> Command:
    return commands.command


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.sql"
    path.write_text(GOOD)
    return path


@contextlib.contextmanager
def not_ignored(number: signal.Signals) -> Iterator[None]:
    """A signal that has its usual effect, though the tests may have been started with nohup or in the background."""
    before = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)
