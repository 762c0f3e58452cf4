"""A child process answers, fails, takes too long, prints and dies; and it ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import PATIENCE, eventually, join
from watersmeet.runtime import child_process
from watersmeet.runtime.child_process import ChildProcess, Ended, Failed

HANDLER = """
import os, re, signal, sys

def answer(request):
    if request == "raise":
        raise ValueError("no idea\\nand more")
    if request == "leave":
        sys.exit(3)
    if request == "exit":
        os._exit(3)
    if request == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request == "stuck":
        re.match(r"(a+)+$", "a" * 60 + "b")
    if request == "sleep":
        signal.pause()
    if request == "talk":
        print("x" * 100_000, flush=True)
        os.system("echo and so does what it starts")
    if request == "modules":
        return sorted(name for name in sys.modules if name.startswith("watersmeet"))
    return request, os.nice(0)
"""


@pytest.fixture
def handler(tmp_path: Path) -> str:
    file = tmp_path / "handler.py"
    file.write_text(HANDLER)
    return str(file)


@pytest.fixture
def child(handler: str) -> Iterator[ChildProcess]:
    child = ChildProcess(handler, niceness=3)
    child.start()
    yield child
    child.close()
    assert not child.is_there


def test_it_answers_and_what_it_prints_is_no_answer(child: ChildProcess) -> None:
    nice = min(19, os.nice(0) + 3)
    for request in ("talk", ["a", 1], "x" * 3_000_000):
        assert child.ask(request, PATIENCE) == (request, nice)
    assert child.ask("modules", PATIENCE) == [], "it starts fast"


@pytest.mark.parametrize(("request_", "text"), [("raise", "ValueError: no idea"), ("leave", "SystemExit: 3")])
def test_what_the_handler_raises_is_told_and_the_process_stays(child: ChildProcess, request_: str, text: str) -> None:
    with pytest.raises(Failed) as told:
        child.ask(request_, PATIENCE)
    assert str(told.value) == text
    assert child.ask("again", PATIENCE)[0] == "again"


@pytest.mark.parametrize(
    ("request_", "seconds", "text"),
    [
        ("exit", PATIENCE, r"it ended its process \(3\)"),
        ("crash", PATIENCE, "its process was ended by signal SIGSEGV"),
        ("stuck", 0.2, "it timed out after 0.2 seconds"),
        ("sleep", 0.2, "it timed out after 0.2 seconds"),
    ],
)
def test_how_it_ended_is_told(child: ChildProcess, request_: str, seconds: float, text: str) -> None:
    with pytest.raises(Ended, match=text):
        child.ask(request_, seconds)
    assert not child.is_there


def test_closing_ends_a_request_of_another_thread(child: ChildProcess) -> None:
    told: list[str] = []

    def ask() -> None:
        try:
            child.ask("stuck", PATIENCE)
        except Ended as problem:
            told.append(str(problem))

    thread = threading.Thread(target=ask)
    thread.start()
    eventually(lambda: psutil.Process(child.pid).cpu_times().user > 0)
    child.close()
    join(thread)
    assert told == ["its process was ended by signal SIGKILL"]


def test_a_handler_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nowhere")
    child = ChildProcess(str(tmp_path / "broken.py"))
    with pytest.raises(Ended, match="cannot be started: ModuleNotFoundError: No module named 'nowhere'"):
        child.start()
    assert not child.is_there


PARENT = """
import sys
from watersmeet.runtime import child_process
from watersmeet.runtime.child_process import ChildProcess
child = ChildProcess(sys.argv[1])
child.start()
print(child.pid, flush=True)
child.ask("stuck", float("inf"))
"""


def test_it_ends_with_its_parent_although_it_never_comes_back_to_python(handler: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, handler], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.ppid() == parent.pid
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_what_a_busy_machine_makes_it_wait_does_not_count(child: ChildProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the process had waited for a processor whenever its time was over."""
    looks: list[int] = []

    def waits_for_a_processor(pid: int) -> tuple[float, bool]:
        looks.append(pid)
        return 0.0, len(looks) < 5

    monkeypatch.setattr(child_process, "_used", waits_for_a_processor)
    with pytest.raises(Ended, match=r"it timed out after 0\.02 seconds"):
        child.ask("sleep", 0.02)
    assert len(looks) == 5
