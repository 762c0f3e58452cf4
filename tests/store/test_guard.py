"""The limit for the memory of a process."""

from __future__ import annotations

import resource

import pytest

from watersmeet.store import guard
from watersmeet.store.guard import limit_memory, memory_beside


def _limit() -> int:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def test_what_runs_beside_has_memory_besides_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_reserved", lambda: 0)
    unlimited = _limit()
    try:
        with memory_beside(10):
            assert _limit() == unlimited, "there is no limit to raise"
            limit_memory(500_000)
            assert _limit() == 500_010 << 20
        assert _limit() == 500_000 << 20
        with memory_beside(10):
            assert _limit() == 500_010 << 20
    finally:
        limit_memory(0)
    assert _limit() == unlimited
