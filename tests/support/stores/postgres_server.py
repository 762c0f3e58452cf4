"""A private Postgres server in a folder: on a socket of its own, as a user without rights, fast to start and to kill.

Postgres does not run as root, so for root it runs as the user that Debian's package makes for it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.support.processes import ROOT
from tests.support.waiting import eventually

HOW_TO_INSTALL = "install Postgres (Debian, Ubuntu: sudo apt install postgresql; macOS: brew install postgresql)"
USER, PORT = "postgres", 54329  # the port is only a part of the socket's name
_LONGEST_PATH = 80  # characters of a folder with a socket, of which Linux allows 107


def programs() -> Path | None:
    """The folder of the newest installed server."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else None


class PostgresServer:
    def __init__(self, folder: Path) -> None:
        found = programs()
        if found is None:
            raise RuntimeError(HOW_TO_INSTALL)
        self._programs = found
        self._folder = folder
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(folder, USER, pwd.getpwnam(USER).pw_gid)
        if not (self._data / "PG_VERSION").exists():
            self._run("initdb", "-D", self._data, "-U", USER, "--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync")

    @property
    def settings(self) -> dict[str, str]:
        return {"host": str(self._folder), "port": str(PORT), "user": USER, "dbname": "postgres"}

    def options(self, **more: str) -> str:
        """What to write after INTO postgres '…'."""
        return "WITH (" + ", ".join(f"{name} = '{value}'" for name, value in {**self.settings, **more}.items()) + ")"

    def start(self) -> None:
        command: list[Any] = [self._programs / "postgres", "-D", self._data, "-k", self._folder, "-p", PORT]
        # No TCP; what a kill of the server loses would be lost by the disk alone, and that is not what is tested.
        for setting in ("listen_addresses=", "shared_buffers=16MB", "max_connections=20", "fsync=off"):
            command += ["-c", setting]
        log = (self._folder / "server.log").open("ab")
        (self._data / "postmaster.pid").unlink(missing_ok=True)  # of one that was killed
        with log:
            self._process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, **self._as_user())
        self.wait()
        self.process_file.write_text(str(self._process.pid))

    def kill(self) -> None:
        """As a power cut would end it: all of its processes at once."""
        assert self._process is not None
        children = _children(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    @property
    def process_file(self) -> Path:
        """Its first line is the process to kill, for `strikes.py`."""
        return self._folder / "process"

    @contextlib.contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Start the server again whenever it was killed."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                if self._process is not None and self._process.poll() is not None:
                    self.start()

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            if self._process is not None and self._process.poll() is not None:
                self.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(autocommit=True, **self.settings) as connection:  # type: ignore[arg-type]
            connection.execute("SET TIME ZONE 'UTC'")
            cursor = connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        """Drop all that tests have made."""
        own = "nspname !~ '^pg_' AND nspname <> 'information_schema'"
        for (schema,) in self.query(f"SELECT quote_ident(nspname) FROM pg_namespace WHERE {own}"):
            self.query(f"DROP SCHEMA {schema} CASCADE")
        self.query("CREATE SCHEMA public")

    def wait(self) -> None:
        """Until it replies."""

        def replies() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                return bool(self.query("SELECT 1"))
            return False

        eventually(replies, "the server did not reply")

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [str(self._programs / program), *map(str, arguments)], capture_output=True, check=False, **self._as_user()
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode())

    def _as_user(self) -> dict[str, Any]:
        if os.getuid() != 0:
            return {"cwd": self._folder}
        return {"cwd": self._folder, "user": USER, "group": pwd.getpwnam(USER).pw_gid, "extra_groups": []}


@contextlib.contextmanager
def running_server() -> Iterator[PostgresServer]:
    """In a folder of the project; elsewhere if its user cannot go there, or its name is too long for a socket."""
    if programs() is None:
        install()
    folder = ROOT / ".connectors" / f"postgres-{os.getpid()}"
    if not _is_open_to_others(folder) or len(str(folder)) > _LONGEST_PATH:
        folder = Path(tempfile.mkdtemp(prefix="watersmeet-postgres-"))
    server = PostgresServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def install() -> None:
    """What Debian has, if that may be installed; otherwise say what to install."""
    if shutil.which("apt-get") is None or os.getuid() != 0:
        raise RuntimeError(HOW_TO_INSTALL)
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "postgresql"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _is_open_to_others(folder: Path) -> bool:
    """Whether a user without rights can reach a folder; one that runs the tests without rights reaches its own."""
    return os.getuid() != 0 or all(above.stat().st_mode & stat.S_IXOTH for above in folder.parents if above.exists())


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(path.parent.name))
    return found
