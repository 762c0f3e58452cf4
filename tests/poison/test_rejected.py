"""What can be rejected is rejected when the query is added: nothing runs, and the others do not notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.poisoned import VICTIM, Poisoned, repeated
from watersmeet.control.changes import Add, read_changes
from watersmeet.control.checker import Checker
from watersmeet.errors import ModelError, RunError, SqlError, WatersmeetError
from watersmeet.io.sinks import open_writer
from watersmeet.model import Sink
from watersmeet.options import Options
from watersmeet.pipeline import Pipeline

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
PLAIN = f"SELECT l.id AS a {JOIN}"

SINKS = {
    "separator of two characters": (PLAIN, Sink("csv", "out", (("sep", ";;"),))),
    "empty separator": (PLAIN, Sink("csv", "out", (("sep", ""),))),
    "separator that is not ASCII": (PLAIN, Sink("csv", "out", (("sep", "é"),))),
    "quotation mark as separator": (PLAIN, Sink("csv", "out", (("sep", '"'),))),
    "line end as separator": (PLAIN, Sink("csv", "out", (("sep", "\n"),))),
    "header that is no bool": (PLAIN, Sink("csv", "out", (("header", "maybe"),))),
    "list into CSV": (f"SELECT l.list AS a {JOIN}", Sink("csv", "out")),
    "struct into CSV": (f"SELECT l.struct AS a {JOIN}", Sink("csv", "out")),
    "binary into CSV": (f"SELECT l.raw AS a {JOIN}", Sink("csv", "out")),
    "unknown compression": (PLAIN, Sink("parquet", "out", (("compression", "zip"),))),
    "compression without a writer": (PLAIN, Sink("parquet", "out", (("compression", "lzo"),))),
    "compression of other formats": (PLAIN, Sink("parquet", "out", (("compression", "bz2"),))),
    "rows that are no number": (PLAIN, Sink("console", None, (("rows", "many"),))),
    "fewer than no rows": (PLAIN, Sink("console", None, (("rows", "-1"),))),
}


@pytest.mark.parametrize("case", SINKS)
def test_sink_that_could_not_be_written(tmp_path: Path, case: str) -> None:
    poisoned = Poisoned(tmp_path)
    poisoned.live()
    select, sink = SINKS[case]
    with poisoned.running() as engine:
        engine.run_once()
        with pytest.raises(ModelError, match=VICTIM):
            engine.query(VICTIM, select, sink)
        poisoned.feed()
        engine.run_once()
    poisoned.check()
    assert not poisoned.suspended


MANY = 100_000
TEXTS = {
    "a thousand thetas": " AND ".join(f"l.id < r.id + {at}" for at in range(1000)),
    "many alternatives": " OR ".join(f"l.id = {at}" for at in range(MANY)).join("()"),
    "alternatives below the limit of characters": " OR ".join(f"l.id = {at}" for at in range(2000)).join("()"),
    "a long sum": " + ".join(["l.id"] * 2000) + " > 1",
    "many cases": "CASE " + " ".join(f"WHEN l.id = {at} THEN {at}" for at in range(1000)) + " END > 5",
    "deep parentheses": "(" * 300 + "l.id" + ")" * 300 + " > 1",
    "deep calls": "abs(" * 300 + "l.id" + ")" * 300 + " > 1",
    "deep brackets": "size(" + "array(" * 200 + "1" + ")" * 201 + " > 1",
    "a long literal": "l.s = '" + "x" * 20_000 + "'",
    "repeat": "length(repeat(l.s, 1000000000)) > 5",
    "repeat with an exponent": "length(repeat(l.s, CAST(1e9 AS INT))) > 5",
    "repeat in repeat": "length(repeat(repeat(l.s, 100000), 100000)) > 5",
    "sequence": "size(sequence(1, 100000000)) > 5",
    "lpad": "lpad(l.s, 2000000000, 'x') = r.s",
    "rpad": "rpad(l.s, 2000000000, 'x') = r.s",
    "array_repeat": "size(array_repeat(l.s, 100000000)) > 5",
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_beyond_the_limits(case: str) -> None:
    with pytest.raises(SqlError) as caught:
        _pipeline().query(VICTIM, f"{PLAIN} AND {TEXTS[case]}")
    assert len(str(caught.value)) < 2000, "the message shows only what is around the error"


def test_limits_are_options() -> None:
    many = " AND ".join(f"l.id <> {at}" for at in range(20))
    _pipeline().query(VICTIM, f"{PLAIN} AND {many}")
    with pytest.raises(SqlError, match="more than 10 terms"):
        _pipeline(max_terms=10).query(VICTIM, f"{PLAIN} AND {many}")
    with pytest.raises(SqlError, match="limit is 50"):
        _pipeline(max_query_length=50).query(VICTIM, PLAIN)
    with pytest.raises(SqlError, match="more than 2 deep"):
        _pipeline(max_depth=2).query(VICTIM, f"{PLAIN} AND abs(abs(abs(l.id))) > 1")
    with pytest.raises(SqlError, match="limit is 3"):
        _pipeline(max_literal=3).query(VICTIM, f"{PLAIN} AND l.s = 'four'")
    _pipeline(max_literal=1_000_000).query(VICTIM, f"{PLAIN} AND l.s = '{'x' * 20_000}'")


def test_values_that_are_no_sizes_have_no_limit() -> None:
    listed = ", ".join(str(-at) for at in range(5000))
    _pipeline().query(VICTIM, f"{PLAIN} AND l.id > 1000000000 AND l.id IN ({listed})")


def _pipeline(**options: Any) -> Pipeline:
    columns = "ts TIMESTAMP, id BIGINT, k BIGINT, s STRING"
    script = "".join(f"CREATE STREAM {n} ({columns}) TIMESTAMP BY ts FROM parquet '{n}';" for n in "lr")
    return Pipeline.read(script, options=Options(**options))


# The process that checks requests --------------------------------------------------------------------


@pytest.fixture
def checker() -> Any:
    made = Checker()
    yield made
    made.close()


def test_checked_in_another_process(checker: Checker) -> None:
    script = f"CREATE QUERY q AS {PLAIN}; DROP QUERY p"
    assert checker.read_changes(script, "", "", _pipeline()) == read_changes(script, "", "", _pipeline())
    with pytest.raises(SqlError, match="nothing") as caught:
        checker.read_changes("CREATE QUERY q AS SELECT l.nothing FROM l [UNBOUNDED]", "", "", _pipeline())
    assert caught.value.place is not None


LONG = repeated("'xxxxxxxxxx'", 3)
CONSTANTS = (
    # Within the limits of literals, but the value is computed when the query is checked.
    "length(concat(" + ", ".join([LONG] * 1000) + ")) > l.id",
    "length(sha2(concat(" + ", ".join([LONG] * 300) + "), 256)) > l.id",
)
GROWING = (
    "length(" + repeated("'xxxxxxxxxx'", 4) + ") > l.id",
    "length(sha2(" + repeated("'xxxxx'", 4) + ", 256)) > l.id",
    "length(lpad('x', 10000, " + repeated("'x'", 2) + ")) > l.id",
    f"length(replace(replace('{'a' * 5000}', 'a', '{'b' * 5000}'), 'b', '{'c' * 5000}')) > l.id",
)


@pytest.mark.parametrize("constant", GROWING, ids=["repeat", "in another", "lpad", "replace"])
def test_a_constant_that_grows_is_rejected_before_it_is_computed(constant: str) -> None:
    """Also where the query is checked in this process, which nothing would interrupt."""
    with pytest.raises(SqlError, match="of these constants may be too long"):
        _pipeline().query("q", f"{PLAIN} AND {constant}")
    for small in ("repeat(repeat('ab', 3), 4)", "lpad(repeat('x', 100), 1000, 'ab')", "replace('aba', 'a', 'xyz')"):
        _pipeline().query("q", f"{PLAIN} AND {small} <> l.s")


@pytest.mark.parametrize("constant", CONSTANTS, ids=["length", "digest"])
def test_a_constant_that_takes_too_much_is_rejected_in_time(checker: Checker, constant: str) -> None:
    """And the next request is checked as if nothing had been."""
    with pytest.raises(WatersmeetError) as caught:
        checker.read_changes(f"CREATE QUERY q AS {PLAIN} AND {constant}", "", "", _pipeline(check_seconds=0.5))
    assert isinstance(caught.value, SqlError | RunError)
    (add,) = checker.read_changes(f"CREATE QUERY q AS {PLAIN}", "", "", _pipeline())
    assert isinstance(add, Add) and add.query.name == "q"


def test_a_check_whose_process_is_killed(checker: Checker) -> None:
    checker.read_changes(f"CREATE QUERY q AS {PLAIN}", "", "", _pipeline())
    assert checker._child is not None
    checker._child.close()
    assert checker.read_changes(f"CREATE QUERY q AS {PLAIN}", "", "", _pipeline())


# Files that others can read --------------------------------------------------------------------------


def test_json_is_valid_whatever_the_number(tmp_path: Path) -> None:
    """A number that JSON does not have is a string, as in Spark's files."""
    nan, inf = float("nan"), float("inf")
    rows = pa.table(
        {
            "d": pa.array([nan, inf, -inf, 1.5, None]),
            "f": pa.array([nan, inf, -inf, 1.5, None], pa.float32()),
            "l": pa.array([[nan, 1.0], [], None, [-inf], [2.5]]),
            "s": pa.array(["NaN", 'a "Infinity"', "-inf \\", "nan\n", "x"]),
        }
    )
    writer = open_writer(tmp_path / "out.json", Sink("json"), rows.schema)
    writer.write(rows)
    writer.close()

    def fail(text: str) -> None:
        raise AssertionError(text)

    lines = [json.loads(line, parse_constant=fail) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert [line["d"] for line in lines] == ["NaN", "Infinity", "-Infinity", 1.5, None]
    assert [line["f"] for line in lines] == ["NaN", "Infinity", "-Infinity", 1.5, None]
    assert [line["l"] for line in lines] == [["NaN", 1.0], [], None, ["-Infinity"], [2.5]]
    assert [line["s"] for line in lines] == rows.column("s").to_pylist()
