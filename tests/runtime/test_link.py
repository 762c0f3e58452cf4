"""The connection of a resident task: both sides prove that they know the key, and neither waits for ever."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE, join
from watersmeet.runtime.exec import link
from watersmeet.runtime.exec.link import Listener, connect, limit_waiting

KEY = b"k" * 32
Arrived = queue.Queue[Connection]


@contextlib.contextmanager
def listening(host: str | None = None) -> Iterator[tuple[Listener, Arrived]]:
    arrived: Arrived = queue.Queue()
    listener = Listener(KEY, host, arrived.put)
    try:
        yield listener, arrived
    finally:
        listener.close()


@pytest.mark.parametrize("by", ["unix", "tcp"])
def test_whoever_knows_the_key_is_connected(by: str) -> None:
    with listening("127.0.0.1") as (listener, arrived):
        address = listener.addresses[by == "tcp"]
        large = os.urandom(1 << 20)
        with connect(["/nowhere/at/all", address], KEY) as task, arrived.get(timeout=PATIENCE) as driver:
            limit_waiting(task, PATIENCE)
            limit_waiting(driver, PATIENCE)
            for message in (b"x", large):
                echo = threading.Thread(target=lambda: driver.send_bytes(driver.recv_bytes()))
                echo.start()
                task.send_bytes(message)
                assert task.recv_bytes() == message
                join(echo)


def test_whoever_has_another_key_is_turned_away() -> None:
    with listening() as (listener, arrived):
        with pytest.raises(AuthenticationError):
            connect(listener.addresses, b"another")
        with connect(listener.addresses, KEY):
            arrived.get(timeout=PATIENCE)
        assert arrived.empty()


def test_a_task_does_not_believe_a_driver_that_lacks_the_key(tmp_path: Path) -> None:
    """It reads pickles from whoever it is connected with."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.settimeout(PATIENCE)
        listening.listen()

        def pretend() -> None:
            accepted, _ = listening.accept()
            limit_waiting(accepted, PATIENCE)
            with Connection(accepted.detach()) as connection:
                connection.send_bytes(b"#CHALLENGE#" + bytes(20))
                connection.recv_bytes()
                connection.send_bytes(b"#WELCOME#")  # whatever the answer was
                connection.recv_bytes()
                connection.send_bytes(bytes(16))

        impostor = threading.Thread(target=pretend)
        impostor.start()
        with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
            connect([path], KEY)
        join(impostor)


def test_a_task_does_not_wait_for_ever_for_a_silent_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "GREETING_SECONDS", 0.2)
    path = str(tmp_path / "socket")
    raised: list[BaseException] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(path)
        silent.listen()

        def attempt() -> None:
            try:
                connect([path], KEY)
            except BaseException as problem:
                raised.append(problem)

        task = threading.Thread(target=attempt, daemon=True)
        task.start()
        join(task)
        assert isinstance(raised[0], OSError)


@contextlib.contextmanager
def silent_connections(listener: Listener) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as held:
        made = [held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) for _ in range(20)]
        for one in made:
            one.connect(listener.addresses[0])
            one.settimeout(PATIENCE)
        yield made


def test_silent_connections_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "GREETING_SECONDS", PATIENCE)
    with listening() as (listener, arrived), silent_connections(listener):
        connect(listener.addresses, KEY).close()
        arrived.get(timeout=PATIENCE).close()


def test_silent_connections_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "GREETING_SECONDS", 0.2)
    with listening() as (listener, _), silent_connections(listener) as silent:
        for one in silent:
            while one.recv(1000):  # the challenge, then the end
                pass


def test_a_moment_without_free_files_does_not_end_the_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [OSError(24, "Too many open files")]

    class Short(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            if failing:
                raise failing.pop()
            return super().accept()

    monkeypatch.setattr("watersmeet.runtime.exec.link.socket.socket", Short)
    with listening() as (listener, arrived):
        with connect(listener.addresses, KEY), arrived.get(timeout=PATIENCE):
            pass
        assert not failing


def test_a_wait_can_be_limited_and_let_go() -> None:
    here, there = socket.socketpair()
    with Connection(here.detach()) as one, Connection(there.detach()) as other:
        limit_waiting(one, 0.1)
        with pytest.raises(BlockingIOError):
            one.recv_bytes()
        limit_waiting(one, 0)
        threading.Timer(0.3, other.send_bytes, (b"late",)).start()
        assert one.recv_bytes() == b"late"
