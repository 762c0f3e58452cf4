"""Runs the program of `program.py` on one home, again and again, and says whether anything was lost or doubled."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support.answers import oracle_answers, stored_answers
from tests.support.case_engine import write_input
from tests.support.cases import Case
from tests.support.faults.program import OUTSIDE
from tests.support.faults.strikes import FOLDER_VARIABLE, IN_TURN, Strikes
from tests.support.faults.workload import make_case
from tests.support.processes import ROOT, environment, kill_tree
from tests.support.waiting import PATIENCE, eventually
from watersmeet.home.layout import STAGING, WAITING
from watersmeet.home.lock import home_lock
from watersmeet.home.manifest import load, load_earlier, load_newest
from watersmeet.home.recovery import recover
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.exec.looking import verify
from watersmeet.store.bucket_file import verify_file

SIGKILLED = -9
FAILED = 1

case_of = functools.cache(make_case)


@functools.cache
def expected_of(ticks: int) -> dict[str, Counter[tuple[object, ...]]]:
    return oracle_answers(case_of(ticks))


class Victim:
    """A home, its input, and the program that is started on it and killed."""

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        ticks: int = 30,
        partitions: int = 1,
        plans: Sequence[str] = ("own",),
        master: str = "",
        reader: str = "engine",
        options: Sequence[str] = (),
    ) -> None:
        """`plans` are those that one start after the other uses, again from the first behind the last. `options` are
        more arguments for the program."""
        self.folder, self.say, self.ticks, self.partitions, self.master = folder, say, ticks, partitions, master
        self.plans, self.reader, self.options = plans, reader, options
        self.home, self.input = folder / "home", folder / "input"
        self.kills: list[str] = []
        self.starts = 0
        self.last_code = 0
        write_input(self.case, self.input)

    @property
    def case(self) -> Case:
        return case_of(self.ticks)

    def results(self, query: str) -> Path:
        return self.folder / query if query == OUTSIDE else self.home / "results" / query

    def start(self, *kills: str, more: Sequence[str] = ()) -> Run:
        self.starts += 1
        return Run(self, kills, more)

    def run(self, *kills: str, more: Sequence[str] = ()) -> list[str]:
        """Start the program, wait for its end, and return the kills that happened."""
        return self.start(*kills, more=more).wait()

    def killed_at(self, *kills: str, more: Sequence[str] = ()) -> None:
        """As `run`, where every kill must happen and the program dies of the last."""
        self._exactly(kills, SIGKILLED, more)

    def finish(self, *kills: str, more: Sequence[str] = ()) -> None:
        """As `run`, where every kill must happen and the program must reach its end all the same."""
        self._exactly(kills, 0, more)

    def _exactly(self, kills: Sequence[str], code: int, more: Sequence[str]) -> None:
        happened = Counter(self.run(*kills, more=more))
        ordered = Counter(kill.removeprefix(IN_TURN).split(":")[0] for kill in kills)
        assert happened == ordered, f"killed at {happened} instead of {kills}"
        assert self.last_code == code


class Run:
    def __init__(self, victim: Victim, kills: Sequence[str], more: Sequence[str]) -> None:
        self.victim, self.ordered = victim, list(kills)
        self.strikes = Strikes(victim.folder / f"strikes-{victim.starts:02d}")
        self.log = victim.folder / f"log-{victim.starts:02d}.txt"
        command = [sys.executable, "-m", "tests.support.faults.program", str(victim.home), str(victim.input)]
        command += ["--strikes", str(self.strikes.folder), "--partitions", str(victim.partitions)]
        plan = victim.plans[(victim.starts - 1) % len(victim.plans)]
        command += [f"--master={victim.master}", "--plan", plan, "--reader", victim.reader, *victim.options, *more]
        for kill in kills:
            command += ["--kill", kill]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, env=environment(PYTHONUNBUFFERED="1")
            )

    def wait(self, killed_from_outside: str = "", may_fail: bool = False) -> list[str]:
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            kill_tree(self.process.pid)
            raise AssertionError(f"the program did not end\n{self.tail()}") from None
        happened = self.strikes.kills() + ([killed_from_outside] if killed_from_outside and code == SIGKILLED else [])
        explained = code == 0 or (code == SIGKILLED and happened) or (code == FAILED and may_fail)
        assert explained, f"exit code {code}\n{self.tail()}"
        self.victim.last_code = code
        self.victim.kills += happened
        tick = load_newest(self.victim.home).tick
        self.victim.say(f"  start {self.victim.starts}: {', '.join(happened) or 'no kill'}; tick {tick}")
        return happened

    def lines(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line == "started" or line.startswith("tick ")]

    def wait_for_lines(self, count: int) -> None:
        """Until the program has told so many lines of progress, or has ended."""
        eventually(lambda: len(self.lines()) >= count or self.process.poll() is not None)

    def tail(self) -> str:
        return "\n".join(line for line in self.log.read_text().splitlines() if "leaked" not in line)[-6000:]


def check_results(victim: Victim) -> None:
    """Every query's folder holds the oracle's answer; each row and result is counted, or set aside, once."""
    expected = expected_of(victim.ticks)
    manifest = load_newest(victim.home)
    for stream in victim.case.streams:
        assert manifest.totals.rows[stream.name] == stream.rows.num_rows, stream.name
        timeless = stream.rows.filter(pc.is_null(stream.rows["ts"])).column("id").to_pylist()
        aside = pq.read_table(victim.home / "rejected" / stream.name).column("id").to_pylist()
        assert sorted(aside) == sorted(timeless), stream.name
    for query, answers in expected.items():
        found = stored_answers(victim.results(query))
        assert found == answers, (
            f"{query}: {(answers - found).total()} results missing, {(found - answers).total()} too many"
        )
        assert manifest.totals.results[query] == answers.total(), query


def check_state(victim: Victim) -> None:
    """The home holds what the newest manifest names, whole, and nothing besides."""
    home = victim.home
    for path in (home / "manifests").iterdir():
        load(path).validate()
    manifest = load_newest(home)
    for bucket in manifest.buckets:
        verify_file(home, bucket)
    kept = (manifest, *load_earlier(home, manifest.tick)[:1])  # to go back to, if the newest is damaged
    assert state_files(home) == {bucket.file for one in kept for bucket in one.buckets}
    waiting = {str(path.relative_to(home)) for path in (home / WAITING).glob("*")}
    assert waiting == {each.file for one in kept for each in one.waiting}
    assert not [*home.glob(f"*/*/{STAGING}/*"), *victim.folder.glob(f"{OUTSIDE}/{STAGING}/*")]
    assert not [path for path in (home / "orders").glob("**/*") if path.is_file()]


def state_files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in (home / "state").glob("**/*") if path.is_file()}


def clean_start(victim: Victim) -> None:
    """What the engine does first when it starts, without the rest."""
    with home_lock(victim.home):
        folders = [victim.results(query.name) for query in victim.case.queries]
        recover(victim.home, folders, [functools.partial(verify, LocalExecutor())])


def processes_of(folder: Path) -> list[psutil.Process]:
    """The processes of all runs with homes in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(FOLDER_VARIABLE, "").startswith(str(folder)):
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_leftovers(folder: Path) -> None:
    """End what outlived its killed driver: Spark's Java process notices that within seconds, but not at once."""
    for process in processes_of(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()
