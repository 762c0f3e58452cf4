"""Limits of one query: of what it uses while it runs, and of its text. 0: no limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a query may use in one tick before it is suspended."""

    matches: int = 0
    result_bytes: int = 0  # of one task
    expression_seconds: float = 0.0  # for an expression on a block of rows
    expression_megabytes: int = 0  # of DuckDB's memory, for the expressions of a task
    task_megabytes: int = 0  # of a Spark task's own memory
    window_seconds: float = 0.0  # for the windows that are computed from rows
    windows: int = 0  # that Spark computes, of all queries; the rest waits for the next ticks


@dataclass(frozen=True)
class TextLimits:
    """What a query may ask for before it is rejected."""

    length: int = 100_000  # characters
    terms: int = 500  # of its conditions
    depth: int = 50  # of its expressions
    literal: int = 10_000  # characters of a literal, or a size that one asks for
    windows: int = 100_000  # that a row is in
