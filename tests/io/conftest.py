from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The folders of the test that are listed from now on. Engines that other tests left without an end list theirs."""
    found: list[str] = []
    scandir = os.scandir

    def listen(path: str) -> object:
        if Path(path).is_relative_to(tmp_path):
            found.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listen)
    return found
