"""Predicates of users: what they answer, and that a bad one hurts nobody else."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

from tests.support import misbehaving_predicates as misbehaving
from tests.support.answers import check_answers
from tests.support.cases import Case, QueryCase, StreamCase
from tests.support.in_process import InProcess
from tests.support.parquet_input import seconds_after_epoch
from tests.support.plans import plan_by
from tests.support.processes import python_process
from tests.support.waiting import PATIENCE, eventually
from watersmeet.errors import ModelError, SqlError
from watersmeet.runtime.udf.predicate_calls import complaints_in
from watersmeet.sql.registration import register

SELECTED = "SELECT a.id, b.id AS other FROM s0 {0} a, s1 {0} b WHERE "
WINDOW = "[UNBOUNDED]"


def streams() -> tuple[StreamCase, ...]:
    def rows(shift: int) -> pa.Table:
        return pa.table(
            {
                "ts": seconds_after_epoch([0] * 9),
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
    engine.run()
    check_answers(case, home)
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
        near=(lambda x, y: np.abs(x - y) <= 1, False, PATIENCE),
        alike=(lambda one, other: one == other, True, PATIENCE),
    )
    assert not engine.manifest.totals.failed_values and not engine.manifest.totals.set_aside
    assert complaints_in(tmp_path) == {}


@pytest.mark.parametrize(
    ("function", "by_row", "complaint"),
    [
        (misbehaving.raises, False, "ValueError: no idea (tick"),
        (misbehaving.raises, True, "ValueError: no idea (tick"),
        (misbehaving.answers_numbers, False, "TypeError: it returned int32 of shape"),
        (misbehaving.answers_numbers, True, "TypeError: it returned int instead of bool"),
        (misbehaving.answers_too_little, False, "instead of"),
        (misbehaving.leaves, False, "SystemExit: 3"),
        (misbehaving.never_returns, False, "it timed out after 0.2 seconds"),
        (misbehaving.never_returns, True, "it timed out after 0.2 seconds"),
        (misbehaving.never_leaves_c, False, "it timed out after 0.2 seconds"),
        (misbehaving.never_leaves_c, True, "it timed out after 0.2 seconds"),
        (misbehaving.crashes, False, "its process was ended by signal SIGSEGV"),
        (misbehaving.ends_its_process, True, "it ended its process (3)"),
    ],
)
def test_a_bad_predicate_is_false_named_and_counted(
    tmp_path: Path, function: Callable[..., Any], by_row: bool, complaint: str
) -> None:
    asked = (
        query("bad", "strange(a.v, b.v)", "false"),
        query("good", "near(a.v, b.v)", "abs(a.v - b.v) <= 1"),
        *OTHERS,
    )
    near = (lambda x, y: np.abs(x - y) <= 1, False, PATIENCE)
    limit = 0.2 if "timed out" in complaint else PATIENCE
    engine = run(tmp_path, asked, strange=(function, by_row, limit), near=near)
    assert complaint in complaints_in(tmp_path)["strange"]
    assert engine.manifest.totals.failed_values["bad"] == 81
    assert set(engine.manifest.totals.failed_values) == {"bad"}
    assert not engine.manifest.totals.set_aside
    assert set(complaints_in(tmp_path)) == {"strange"}


def test_a_predicate_that_ran_away_is_off_until_the_next_start(tmp_path: Path) -> None:
    called = tmp_path / "called"

    def slow(x: Any, y: Any) -> Any:
        with called.open("a") as file:
            file.write("once\n")
        signal.pause()

    engine = run(tmp_path / "home", (query("bad", "slow(a.v, b.v)", "false"), *OTHERS), slow=(slow, False, 0.5))
    assert called.read_text() == "once\n"
    assert engine.manifest.totals.failed_values["bad"] == 81, "rows that it was not asked about are counted too"
    assert "it is disabled now" in complaints_in(tmp_path / "home")["slow"]
    engine.restart()
    engine.tick(engine.case.pieces(0))
    assert called.read_text() == "once\nonce\n"


def test_failures_on_the_way_into_a_materialized_store_are_counted_for_its_readers(tmp_path: Path) -> None:
    selected = "SELECT a.id, b.id AS second, c.id AS third FROM s0 {0} a, s1 {0} b, s1 {0} c WHERE "
    text = selected.format(WINDOW) + "breaks(a.v, b.v) AND b.v = c.v"
    case = Case(streams(), (QueryCase("bad", text, selected.format("") + "false"),), 1, frozenset(), 2)
    engine = InProcess(tmp_path, case, {"breaks": register("breaks", misbehaving.raises, False, PATIENCE)})
    engine.run()
    before = engine.manifest.totals.failed_values["bad"]
    (graph,) = engine.problem.queries
    pair = next(one for one in graph.connected if one.relations == frozenset(("s0", "s1")))
    engine.follow(plan_by(engine.problem, lambda options: pair if pair in options else options[0]))
    engine.tick({}, group="")  # which only fills the store
    assert engine.manifest.totals.failed_values["bad"] == before + 81


def test_what_a_predicate_prints_disturbs_nobody(tmp_path: Path) -> None:
    def talks(x: Any, y: Any) -> Any:
        print("x" * 100_000, flush=True)
        os.system("echo and so does what it starts")
        return x == y

    run(tmp_path, (query("good", "talks(a.v, b.v)", "a.v = b.v"),), talks=(talks, False, PATIENCE))
    assert complaints_in(tmp_path) == {}


WORKER = """
import os, re, sys
import pyarrow as pa
from watersmeet.sql.registration import register
from watersmeet.runtime.udf.predicate_calls import Calls

def stuck(x):
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    return re.match(r"(a+)+$", "a" * 60 + "b")

path = sys.argv[1]
Calls().call(register("stuck", stuck, True, float("inf")), [pa.array([1])])
"""


def test_a_call_ends_when_its_worker_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with python_process(WORKER, told) as worker:
        eventually(lambda: (told.exists() and told.read_text()) or worker.poll() is not None)
        caller = psutil.Process(int(told.read_text()))
        assert caller.ppid() == worker.pid
    eventually(lambda: not caller.is_running() or caller.status() == psutil.STATUS_ZOMBIE)


def test_a_predicate_that_raises_for_some_rows_is_false_for_those(tmp_path: Path) -> None:
    def picky(x: int, y: int) -> bool:
        return 6 // x > y

    asked = (query("some", "picky(a.v, b.v)", "a.v <> 0 AND 6 // a.v > b.v"), *OTHERS)
    engine = run(tmp_path, asked, picky=(picky, True, PATIENCE))
    zeros = sum(value == 0 for value in streams()[0].rows.column("v").to_pylist())
    assert engine.manifest.totals.failed_values["some"] == 9 * zeros
    assert complaints_in(tmp_path)["picky"].startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("near(a.v, 1) AND a.v = b.v", "near reads 1 alias here"),
        ("NOT near(a.v, b.v)", "the registered predicate near is part of another expression"),
        ("near(a.v, nowhere(b.v))", "function nowhere is not supported"),
        ("neer(a.v, b.v)", "function neer is not supported"),
    ],
)
def test_where_a_registered_predicate_cannot_stand(tmp_path: Path, condition: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        run(tmp_path, (query("q", condition, "true"),), near=(lambda x, y: x == y, False, 1.0))


@pytest.mark.parametrize(("name", "message"), [("abs", "built-in"), ("soundex", "built-in"), ("a b", "name")])
def test_a_name_that_a_predicate_cannot_have(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        register(name, lambda x, y: x == y, False, 1.0)


def test_a_function_that_cannot_travel_is_rejected() -> None:
    lock = threading.Lock()
    with pytest.raises(ModelError, match="cannot be sent to the workers"):
        register("locked", lambda x, y: lock and x == y, False, 1.0)
