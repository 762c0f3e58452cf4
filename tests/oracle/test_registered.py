"""Predicates of users: what they answer, and that a bad one hurts nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.oracle.answers import oracle_answers, stored_answers
from tests.oracle.cases import EPOCH, Case, QueryCase, StreamCase
from tests.oracle.inprocess import InProcess
from watersmeet.errors import ModelError, SqlError
from watersmeet.registering import register
from watersmeet.runtime.calls import complaints_in

SELECTED = "SELECT a.id, b.id AS other FROM s0 {0} a, s1 {0} b WHERE "
WINDOW = "[UNBOUNDED]"


def streams() -> tuple[StreamCase, ...]:
    def rows(shift: int) -> pa.Table:
        return pa.table(
            {
                "ts": pa.array([EPOCH] * 9, pa.timestamp("us", tz="UTC")),
                "id": pa.array(range(9), pa.int64()),
                "k0": pa.array([None, *(f"n{(at + shift) % 4}" for at in range(8))]),
                "v": pa.array([(at * shift) % 5 for at in range(9)], pa.int32()),
            }
        )

    columns = (("k0", "STRING"), ("v", "INT"))
    return tuple(StreamCase(f"s{at}", columns, 0, rows(at + 2), (4, 6)) for at in range(2))


def query(name: str, condition: str, same: str) -> QueryCase:
    return QueryCase(name, SELECTED.format(WINDOW) + condition, SELECTED.format("") + same)


def run(home: Path, queries: tuple[QueryCase, ...], partitions: int = 1, **functions: Any) -> InProcess:
    case = Case(streams(), queries, partitions, frozenset(), 2)
    known = {name: register(name, *given) for name, given in functions.items()}
    engine = InProcess(home, case, known)
    for tick in range(case.ticks):
        engine.tick({stream.name: stream.piece(tick) for stream in case.streams})
    for name, expected in oracle_answers(case).items():
        assert stored_answers(home / "results" / name) == expected, name
    return engine


OTHERS = (query("calm", "a.v < b.v", "a.v < b.v"), query("equal", "a.v = b.v", "a.v = b.v"))


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_predicate_is_called_with_arrays_or_with_values(tmp_path: Path, partitions: int) -> None:
    asked = (
        query("close", "near(a.v, b.v * 2)", "abs(a.v - b.v * 2) <= 1"),
        query("names", "alike(a.k0, b.k0) AND a.v = b.v", "a.k0 = b.k0 AND a.v = b.v"),
        *OTHERS,
    )
    engine = run(
        tmp_path,
        asked,
        partitions,
        near=(lambda x, y: np.abs(x - y) <= 1, False, 60.0),
        alike=(lambda one, other: one == other, True, 60.0),
    )
    assert not any(name.startswith("failed") for name in engine.manifest.totals)
    assert complaints_in(tmp_path) == {}


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
        except Exception:
            continue


@pytest.mark.parametrize(
    ("function", "by_row", "complaint"),
    [
        (raises, False, "ValueError: no idea (tick"),
        (raises, True, "ValueError: no idea (tick"),
        (answers_numbers, False, "TypeError: it answered with int32 of shape"),
        (answers_numbers, True, "TypeError: it answered with int instead of bool"),
        (answers_too_little, False, "instead of"),
        (leaves, False, "SystemExit: 3"),
        (never_returns, False, "it took more than 0.2 seconds"),
        (never_returns, True, "it took more than 0.2 seconds"),
    ],
)
def test_a_bad_predicate_is_false_named_and_counted(
    tmp_path: Path, function: Callable[..., Any], by_row: bool, complaint: str
) -> None:
    asked = (query("bad", "strange(a.v, b.v)", "false"), *OTHERS)
    engine = run(tmp_path, asked, strange=(function, by_row, 0.2))
    assert complaint in complaints_in(tmp_path)["strange"]
    assert engine.manifest.totals["failed_values/bad"] == 81
    assert {name for name in engine.manifest.totals if name.startswith("failed")} == {"failed_values/bad"}


def test_a_predicate_that_raises_for_some_rows_is_false_for_those(tmp_path: Path) -> None:
    def picky(x: int, y: int) -> bool:
        return 6 // x > y

    asked = (query("some", "picky(a.v, b.v)", "a.v <> 0 AND 6 // a.v > b.v"), *OTHERS)
    engine = run(tmp_path, asked, picky=(picky, True, 60.0))
    zeros = sum(value == 0 for value in streams()[0].rows.column("v").to_pylist())
    assert engine.manifest.totals["failed_values/some"] == 9 * zeros
    assert complaints_in(tmp_path)["picky"].startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("near(a.v, 1) AND a.v = b.v", "near reads 1 alias here"),
        ("NOT near(a.v, b.v)", "the registered predicate near stands inside another expression"),
        ("near(a.v, nowhere(b.v))", "unknown function nowhere"),
        ("neer(a.v, b.v)", "unknown function neer"),
    ],
)
def test_where_a_registered_predicate_cannot_stand(tmp_path: Path, condition: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        run(tmp_path, (query("q", condition, "true"),), near=(lambda x, y: x == y, False, 1.0))


@pytest.mark.parametrize(("name", "message"), [("abs", "built-in"), ("soundex", "built-in"), ("a b", "name")])
def test_a_name_that_a_predicate_cannot_have(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        register(name, lambda x, y: x == y, False, 1.0)


def test_a_function_that_cannot_travel_is_refused() -> None:
    lock = time.get_clock_info("time"), __import__("threading").Lock()
    with pytest.raises(ModelError, match="cannot be sent to the workers"):
        register("locked", lambda x, y: lock and x == y, False, 1.0)
