"""Poison in files, values and requests: five healthy queries beside it equal the oracle before, meanwhile, afterwards,
and through restarts. What becomes of the poison itself is tested where that is decided."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.poison.test_rejected import GROWING, PLAIN, TEXTS
from tests.support.inside import published
from tests.support.parquet_input import damaged, seconds_after_epoch
from tests.support.poisoned import Poisoned
from tests.support.waiting import PATIENCE, eventually
from watersmeet.control.mailbox import Mailbox, Request
from watersmeet.errors import SqlError, WatersmeetError

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"


def healthy_through(poisoned: Poisoned, poisons: Mapping[str, Callable[[], object]]) -> None:
    """A life before, one in which each poison arrives between two ticks, and two lives after it."""
    poisoned.live()
    poisoned.check()
    with poisoned.running() as engine:
        for name, poison in poisons.items():
            poison()
            poisoned.feed()
            engine.run_once()
            poisoned.check(f"after {name}")
    for _ in range(2):
        poisoned.live()
        poisoned.check()


# Files -----------------------------------------------------------------------------------------------


def _rows(**columns: pa.Array) -> pa.Table:
    """Rows that would have partners, were they not to be set aside."""
    usual: dict[str, pa.Array] = {
        "ts": seconds_after_epoch([1] * 2),
        "id": pa.array([-1, -2], pa.int64()),
        "k": pa.array([1, 2], pa.int64()),
        "s": pa.array(["a", "b"]),
        "n": pa.array([1, 2], pa.int32()),
        "list": pa.array([[1], []], pa.list_(pa.int64())),
        "raw": pa.array([b"", b""], pa.binary()),
        "d": pa.array([0.5, 0.5]),
        "struct": pa.array([{"x": 1}] * 2, pa.struct([("x", pa.int64())])),
    }
    return pa.table({name: column for name, column in {**usual, **columns}.items() if column is not None})


def _file(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _writes(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)
        os.utime(path, (1, 1))  # it has settled

    return write


def _holds_nothing(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)
    os.utime(path, (1, 1))


def _has_folders(path: Path) -> None:
    for _ in range(50):
        path = path / "deep"
    path.mkdir(parents=True)
    (path / "poison").write_bytes(b"no file of Parquet")


def _is_no_text(path: Path) -> None:
    with open(os.fsencode(path.parent) + b"/\xff\xfe", "wb") as file:
        file.write(b"no file of Parquet")


GOOD = _file(_rows())
LONG = _file(pa.concat_tables([_rows()] * 2000), row_group_size=500, use_dictionary=False)
INVALID = pa.array([b"\xff\xfe", b"\xc3"], pa.binary()).view(pa.string())
FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to nowhere": lambda path: path.symlink_to(path.parent / "gone"),
    "circle of links": lambda path: path.symlink_to(path),
    "link to the folder": lambda path: path.symlink_to(path.parent),
    "deep folders": _has_folders,
    "empty file": _writes(b""),
    "text": _writes(b"no file of Parquet"),
    "first half": _writes(GOOD[: len(GOOD) // 2]),
    "without its end": _writes(GOOD[:-1]),
    "only its marks": _writes(b"PAR1PAR1"),
    "footer of a wrong length": _writes(GOOD[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "footer of noise": _writes(GOOD[:-200] + bytes(range(192)) + GOOD[-8:]),
    "damaged inside": _writes(damaged(LONG)),
    "a gigabyte of nothing": _holds_nothing,
    "name that is no text": _is_no_text,
    "name \x1b[2J\n[bold] that commands a terminal": _writes(b"no file of Parquet"),
    "column that is missing": _writes(_file(_rows(n=None))),
    "column of another type": _writes(_file(_rows(k=pa.array(["1", "2"])))),
    "time that is a number": _writes(_file(_rows(ts=pa.array([1, 2], pa.int64())))),
    "no rows": _writes(_file(_rows().slice(0, 0))),
    "year 9000": _writes(_file(_rows(ts=seconds_after_epoch([221_845_392_000] * 2)))),
    "no times": _writes(_file(_rows(ts=pa.nulls(2, pa.timestamp("us", tz="UTC"))))),
    "times that are late": _writes(_file(_rows(ts=seconds_after_epoch([-1_000_000_000] * 2)))),
    "strings that are no UTF-8": _writes(_file(_rows(s=INVALID))),
}


def test_files(tmp_path: Path) -> None:
    """One after the other in one folder, without the ending by which the oracle finds its files."""
    poisoned = Poisoned(tmp_path, {"settle_seconds": 0.05})
    healthy_through(poisoned, {case: partial(put, tmp_path / "r" / case) for case, put in FILES.items()})
    assert not poisoned.suspended


# Values ----------------------------------------------------------------------------------------------

LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Value:
    expression: str
    poison: dict[str, Any]


VALUES = [
    Value("(r.n + r.n) * (r.n + r.n)", {"n": LARGEST}),
    Value("if(CAST(r.s AS INT) BETWEEN 1 AND 50, 1, 0)", {"s": pa.array(["7", "x"] * 4)}),
    Value("if(CAST(r.s AS INT) IN (1, 7), 1, 0)", {"s": pa.array(["7", "x"] * 4)}),
    Value("CAST(r.s AS INT) + CAST(r.s AS INT)", {"s": pa.array(["7", ""] * 4)}),
    Value("100 div (r.n - 5)", {"n": 5}),
    Value("100 % (r.n - 5)", {"n": 5}),
    Value("-(r.n - 1 - 1)", {"n": -LARGEST}),
    Value("abs(r.n - 1)", {"n": -LARGEST}),
    Value("CAST(r.d AS BIGINT)", {"d": 1e300}),
    Value("CAST(r.d AS INT)", {"d": float("nan")}),
    Value("if(l.d - r.d > 0, 1, 0)", {"d": float("nan")}),
    Value("CAST(r.n AS DECIMAL(4, 1)) * CAST(r.n AS DECIMAL(4, 1))", {"n": LARGEST}),
    Value("element_at(l.`list`, r.n - 3)", {"n": 3}),
    Value("year(date_add(DATE '2024-01-01', r.n))", {"n": LARGEST}),
    Value("year(make_date(r.n, 1, 1))", {"n": LARGEST}),
    Value("length(repeat(repeat(r.s, 100), 100))", {"s": pa.array(["a" * 500] * 8)}),
    Value("length(lpad(r.s, 9999, 'xy'))", {"s": pa.array(["", "é", "a" * 100_000, None] * 2)}),
    Value("length(replace(r.s, 'a', 'b'))", {"s": pa.array(["a\0b", "\U0010ffff", "", "a" * 100_000] * 2)}),
    Value("if(r.s LIKE 'a%_\\\\%', 1, 0)", {"s": pa.array(["\\", "%", "a\\%", "\n"] * 2)}),
    Value("if(r.s RLIKE '(a|b)+$', 1, 0)", {"s": pa.array(["ab" * 10_000 + "\n", "\u2028", "", "b"] * 2)}),
]


# Strings by themselves: an expression that makes a long string longer takes too much of another one's poison.
_NUMBERS = [value for value in VALUES if "s" not in value.poison]
TOGETHER = {"numbers": _NUMBERS[::2], "more numbers": _NUMBERS[1::2]} | {
    value.expression: [value] for value in VALUES if "s" in value.poison
}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(values, marks=[pytest.mark.thorough] if at % 3 else [])
        for at, values in enumerate(TOGETHER.values())
    ],
    ids=TOGETHER,
)
def test_values(tmp_path: Path, values: list[Value]) -> None:
    """As an output, in the condition of two aliases, and twice in a filter."""
    poisoned = Poisoned(tmp_path)
    poisons: dict[str, Callable[[], object]] = {}
    for at, value in enumerate(values):
        text = value.expression
        poisoned.declare(f"SELECT {text} AS a {JOIN}", name=f"output_{at}")
        poisoned.declare(f"SELECT l.id AS a {JOIN} AND l.id + {text} > 3", name=f"condition_{at}")
        if "l." not in text:
            both = f"{text} > 3 OR {text} < 0 AND r.k = l.k"
            poisoned.declare(f"SELECT l.id AS a {JOIN} AND {both}", name=f"filter_{at}")
        poisons[text] = partial(poisoned.feed, **value.poison)
    healthy_through(poisoned, poisons)


# Requests --------------------------------------------------------------------------------------------

REQUESTS: dict[str, bytes] = {
    "brackets": b"[" * 200_000,
    "objects": b'{"kind":' * 100_000,
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "no object": b"null",
    "another kind": b'{"kind": "launch", "script": "DROP QUERY plain"}',
    "another field": b'{"kind": "change", "script": "DROP QUERY plain", "sudo": true}',
    "no script": b'{"kind": "change", "script": 7}',
    "too long": b'{"kind": "change", "script": "' + b"x" * (5 << 20) + b'"}',
}


def test_requests(tmp_path: Path) -> None:
    """Whatever other processes ask a running engine for, and however: it runs on, and takes the next request."""
    poisoned = Poisoned(tmp_path, {"check_seconds": PATIENCE})
    poisoned.live()

    def fed() -> None:
        poisoned.feed()

        def is_done() -> bool:
            engine.wait(0.01)  # raises what has failed
            return all(stream.rows == poisoned.rows for stream in engine.stats().streams)

        eventually(is_done)
        published(engine)
        poisoned.check()

    with poisoned.running() as engine:
        engine.start()
        mailbox = Mailbox(engine.home)
        os.mkfifo(mailbox.inbox / "0-pipe.json")
        (mailbox.inbox / "0-folder.json").mkdir()
        for name, content in REQUESTS.items():
            draft = mailbox.inbox / "draft"
            draft.write_bytes(content)
            draft.rename(mailbox.inbox / f"{name}.json")
        fed()
        for condition in (*TEXTS.values(), *GROWING):
            with pytest.raises(SqlError):
                engine.query("bad", f"{PLAIN} AND {condition}")
        fed()
        for script in ("DROP QUERY nobody", "DROP TABLE plain", f"CREATE QUERY plain AS {PLAIN}", "(" * 1000, "\0"):
            with pytest.raises(WatersmeetError):
                mailbox.ask(Request("change", script=script), PATIENCE)
        mailbox.ask(Request("change", script=f"CREATE QUERY good AS {PLAIN}"), PATIENCE)
        fed()
        assert {"good", "plain"} <= set(engine.newest.queries)
    for _ in range(2):
        poisoned.live()
        poisoned.check()
