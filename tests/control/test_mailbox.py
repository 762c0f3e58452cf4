"""Whatever lies in the inbox, the control thread lives: it takes the requests beside it and rejects what is none."""

from __future__ import annotations

import itertools
import json
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.change_log import requested
from tests.support.clock import clock_of
from tests.support.two_streams import JOIN, create_both, write
from tests.support.waiting import eventually
from watersmeet import Engine
from watersmeet.control import server
from watersmeet.control.changes import Activated, ChangeRequest, Verdict
from watersmeet.control.mailbox import Mailbox, Reply, Request
from watersmeet.control.server import ControlServer, asked_at
from watersmeet.pipeline import Pipeline
from watersmeet.plan.rendered import RenderedPlan


class FakeEngine:
    """Says yes to every change."""

    pipeline = Pipeline()

    def __init__(self) -> None:
        self.asked: list[ChangeRequest] = []
        self.raising: list[BaseException] = []

    def plan(self) -> RenderedPlan:
        raise AssertionError("nobody asks for a plan")

    def apply(self, requests: Sequence[ChangeRequest]) -> list[Verdict]:
        self.asked += requests
        return [Activated(7, time.monotonic() - asked.at) for asked in requests]

    def settle(self, idle: float) -> None:
        if self.raising:
            raise self.raising.pop()


class Served:
    def __init__(self, home: Path) -> None:
        self.engine, self.mailbox = FakeEngine(), Mailbox(home)
        self.mailbox.open(0.0)
        self.server = ControlServer(self.engine, self.mailbox)
        self.server.start()

    def put(self, name: str, content: bytes) -> None:
        draft = self.mailbox.inbox / f"{name}.draft"
        draft.write_bytes(content)
        draft.rename(self.mailbox.inbox / f"{name}.json")

    def answer(self, request: Request) -> Reply:
        answer = eventually(lambda: self.mailbox.hear(request))
        assert answer is not None
        return answer

    def replied(self, name: str) -> str:
        """What the sender of a request is told."""
        answer = self.answer(Request("", id=name))
        return f"{answer.error['problem']}: {answer.error['detail']}" if answer.error else f"tick {answer.tick}"

    def still_works(self) -> None:
        request = Request("change", script="DROP QUERY q;")
        self.mailbox.send(request)
        assert self.replied(request.id) == "tick 7"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def long_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for many requests: it starts a process to check them."""
    made = Served(tmp_path_factory.mktemp("served"))
    yield made
    made.server.stop()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 200_000, "RecursionError"),
        (b'{"kind":' * 100_000, "RecursionError"),
        (b"", "JSONDecodeError"),
        (b"\xff\xfe\x00", "UnicodeDecodeError"),
        (b"null", "TypeError"),
        (b'["change"]', "TypeError"),
        (b'{"script": "DROP QUERY q"}', "TypeError"),
        (b'{"kind": "change", "script": "DROP QUERY q", "sudo": true}', "TypeError"),
        (b'{"kind": "launch", "script": "DROP QUERY q"}', "the kinds are change, resume, explain"),
        (b'{"kind": ["change"], "script": "DROP QUERY q"}', "its kind is"),
        (b'{"kind": "change", "script": 7}', "text was expected, not int"),
        (b'{"kind": "change", "script": "DROP QUERY q", "at": NaN}', "its time is not a number"),
        (b'{"kind": "change", "script": "DROP QUERY q", "at": "now"}', "its time is not a number"),
        (b'{"kind": "change", "script": "' + b"x" * (4 << 20) + b'"}', "more than 4,194,304 bytes"),
    ],
)
def test_a_bad_request_is_rejected_with_the_reason(long_served: Served, content: bytes, why: str) -> None:
    long_served.engine.asked.clear()
    name = f"bad{zlib.crc32(content)}"  # a reply stays until somebody has read it
    long_served.put(name, content)
    assert why in long_served.replied(name)
    assert long_served.engine.asked == [], "it was carried out"
    assert not (long_served.mailbox.inbox / f"{name}.json").exists()
    long_served.still_works()


def test_a_folder_a_pipe_and_a_link_are_not_requests(served: Served, tmp_path: Path) -> None:
    inbox = served.mailbox.inbox
    (inbox / "0-folder.json").mkdir()
    (inbox / "0-folder.json" / "full").touch()
    os.mkfifo(inbox / "0-pipe.json")
    elsewhere = tmp_path / "secret"
    elsewhere.write_text(json.dumps(asdict(Request("change", script="DROP QUERY q;"))))
    (inbox / "0-link.json").symlink_to(elsewhere)
    assert "not a regular file" in served.replied("0-pipe")
    assert "OSError" in served.replied("0-link")
    assert served.engine.asked == [] and elsewhere.exists()
    served.still_works()
    assert [path.name for path in inbox.iterdir()] == ["0-folder.json"]
    Mailbox(tmp_path).open(time.time() + 1)  # nor do they keep the next engine from starting


def test_a_thousand_folders_do_not_hide_a_request(served: Served) -> None:
    for number in range(1001):
        (served.mailbox.inbox / f"0-{number}.json").mkdir()
    served.still_works()


def test_a_request_that_cannot_be_removed_is_not_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox(tmp_path)
    mailbox.open(0.0)
    mailbox.send(Request("change", script="DROP QUERY q;"))

    def fail(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as read_only:
        read_only.setattr(Path, "unlink", fail)
        assert list(mailbox.take()) == [], "it would be carried out again and again"
    assert len(list(mailbox.take())) == 1


def test_a_file_of_another_user_is_not_a_request(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)
    served.put("foreign", json.dumps(asdict(Request("change", script="DROP QUERY q;"))).encode())
    assert "belongs to another user" in served.replied("foreign")
    assert served.engine.asked == []


@pytest.mark.parametrize("problem", [RecursionError("deep"), MemoryError(), ValueError("surprise")])
def test_the_thread_survives_what_the_engine_raises(long_served: Served, problem: BaseException) -> None:
    long_served.engine.raising.append(problem)
    eventually(lambda: not long_served.engine.raising)
    long_served.still_works()


@pytest.mark.parametrize("skew", [-86_400.0, 86_400.0, 0.0])
def test_a_clock_that_jumps_does_not_change_a_latency(long_served: Served, skew: float) -> None:
    request = Request("change", script="DROP QUERY q;", at=time.time() + skew)
    long_served.mailbox.send(request)
    assert 0 <= long_served.answer(request).latency < 3600


def test_the_time_of_a_request_lies_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_of(monkeypatch, server)
    now = clock.now
    assert asked_at(clock.time() - 86_400, now - 5) == now - 5
    assert asked_at(clock.time() + 86_400, now - 5) == now
    assert asked_at(clock.time() - 2, now - 5) == now - 2


def test_a_clock_that_jumps_while_the_engine_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = itertools.count(time.time(), 86_400)
    for name in "lr":
        write(tmp_path / name, [(1, 0, 7)])
    with Engine(home=tmp_path / "home", executor="local") as engine:
        engine.sql(create_both(tmp_path))
        engine.query("q", JOIN)
        engine.run_once()
        with monkeypatch.context() as jumping:
            jumping.setattr(time, "time", lambda: next(days))
            engine.query("added", JOIN)
        (entry,) = requested(engine.home)
        assert 0 <= entry.latency < 3600
        assert engine.stats().queries[1].latency == entry.latency
