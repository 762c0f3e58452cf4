"""A folder for one measurement, gone after it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def in_scratch(work: Callable[[Path], T]) -> T:
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
    try:
        return work(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
