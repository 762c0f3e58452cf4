from __future__ import annotations

import os

import pytest


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are listed from now on."""
    found: list[str] = []
    scandir = os.scandir

    def listen(path: str) -> object:
        found.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listen)
    return found
