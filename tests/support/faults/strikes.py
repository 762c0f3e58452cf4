"""Who dies when: orders to kill, as files that any process of a run can take, each exactly once.

`POINT:N[:VICTIM]` means: the N-th time that any process reaches POINT, VICTIM gets SIGKILL, or what `VICTIMS` says.
An order is N - 1 files that let pass and one that kills; whoever reaches the point takes the first that is left by
renaming it, which succeeds for one process only. A kill is counted by the renamed file, which is made just before the
signal.

`+POINT:N[:VICTIM]` comes in its turn: passes of the point are counted once the order with + before it has struck, so
that the sequence does not depend on how fast which process is.
"""

from __future__ import annotations

import os
import signal
import socket
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from tests.support.processes import kill_tree
from tests.support.waiting import eventually

FOLDER_VARIABLE = "WATERSMEET_STRIKES"
DRIVER_VARIABLE = "WATERSMEET_STRIKES_DRIVER"
BROKER_VARIABLE = "WATERSMEET_STRIKES_BROKER"  # a file with the process of the broker that may be killed
PASS = "pass"
IN_TURN = "+"
CANCEL = "cancel"  # a file that asks the driver to cancel all jobs of Spark
# The process at the point; the engine's; that with all below it; the Java process whose task reached the point. Or
# the process is stopped, its connection to the driver is cut, all jobs of Spark are cancelled, or a broker dies.
VICTIMS = ("self", "driver", "tree", "java", "stop", "connection", "jobs", "broker")


class Strikes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._spent = folder / "spent"
        self._spent.mkdir(parents=True, exist_ok=True)
        self.connection: Connection | None = None  # of the resident task that this process is

    def order(self, text: str) -> None:
        point, number, *rest = text.removeprefix(IN_TURN).split(":")
        victim = rest[0] if rest else "self"
        assert victim in VICTIMS, victim
        folder = self.folder
        if text.startswith(IN_TURN):
            folder = self.folder / f"turn-{len(self._turns()):02d}"
            folder.mkdir()
        there = len(list(folder.glob(f"{point}~*")))
        for at in range(there, there + int(number)):
            last = at == there + int(number) - 1
            (folder / f"{point}~{at:04d}-{folder.name}~{victim if last else PASS}").touch()

    def _turns(self) -> list[Path]:
        return sorted(self.folder.glob("turn-*"))

    def _due(self, point: str) -> list[Path]:
        """What is left of the orders for a point: of those in turn, the first that has not struck."""
        turn = next((folder for folder in self._turns() if any(folder.iterdir())), None)
        return sorted([*self.folder.glob(f"{point}~*"), *(turn.glob(f"{point}~*") if turn else ())])

    def reach(self, point: str) -> None:
        """What every instrumented place calls."""
        for order in self._due(point):
            try:
                order.rename(self._spent / order.name)
            except FileNotFoundError:
                continue  # another process was at this point at the same time
            victim = order.name.rpartition("~")[2]
            if victim == "connection":
                assert self.connection is not None
                with socket.socket(fileno=os.dup(self.connection.fileno())) as same:
                    same.shutdown(socket.SHUT_RDWR)
            elif victim == "jobs":
                (self.folder / CANCEL).touch()
                eventually(lambda: not (self.folder / CANCEL).exists())  # so that the point is where it happens
            elif victim != PASS:
                _kill(victim)
            return

    def kills(self) -> list[str]:
        """The points at which a kill happened."""
        spent = sorted(path.name.split("~") for path in self._spent.glob("*"))
        return [point for point, _, victim in spent if victim != PASS]


def _kill(victim: str) -> None:
    driver = int(os.environ[DRIVER_VARIABLE])
    if victim == "self":
        os.kill(os.getpid(), signal.SIGKILL)
    elif victim == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif victim == "driver":
        os.kill(driver, signal.SIGKILL)
    elif victim == "broker":
        os.kill(int(Path(os.environ[BROKER_VARIABLE]).read_text()), signal.SIGKILL)
    elif victim == "java":
        next(above for above in psutil.Process().parents() if above.name() == "java").kill()
    else:
        kill_tree(driver)
