"""Predicates that do wrong. The process that calls them imports this module, so it imports little itself."""

from __future__ import annotations

import ctypes
import os
import re
import time
from typing import Any

import numpy as np


def raises(x: Any, y: Any) -> Any:
    raise ValueError("no idea\nand more")


def answers_numbers(x: Any, y: Any) -> Any:
    return x + y


def answers_too_little(x: Any, y: Any) -> Any:
    return np.zeros(1, bool)


def leaves(x: Any, y: Any) -> Any:
    raise SystemExit(3)


def never_returns(x: Any, y: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def never_leaves_c(x: Any, y: Any) -> Any:
    """Holds Python's lock while it runs, and no signal handler of Python is called."""
    return re.match(r"(a+)+$", "a" * 40 + "b") is not None


def crashes(x: Any, y: Any) -> Any:
    return ctypes.string_at(0)


def ends_its_process(x: Any, y: Any) -> Any:
    os._exit(3)
