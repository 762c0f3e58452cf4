"""A home to kill engines on, and a voice that is heard while a long test runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.faults.victim import Victim, end_leftovers


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def tell(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return tell


@pytest.fixture
def victim(tmp_path: Path, say: Callable[[str], None]) -> Iterator[Callable[..., Victim]]:
    say("")
    yield lambda **options: Victim(tmp_path, say, **options)
    end_leftovers(tmp_path)
