"""The tiers of tests: `./run test` for every commit, and those of `./run test-all`, which run one after the other.

    python -m tests.tiers commit [options of pytest]        linters, types, tests
    python -m tests.tiers all [options of pytest]           every other tier, and a table of them at the end
    python -m tests.tiers NAME [options of pytest]          one of these alone

docs/testing.md says what each of them proves.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from tests.support.quick_java import quick_java

SEED = "WATERSMEET_SEED"


@dataclass(frozen=True)
class Tier:
    name: str
    what: str
    marks: str  # the tests, as `pytest -m` takes them
    processes: int = 1
    options: tuple[str, ...] = ()
    spread: str = "loadfile"  # how processes share the tests: by default those of a file stay together
    is_quick: bool = True  # sessions that live for minutes (tests/support/quick_java.py)


COMMIT = Tier("commit", "every commit", "", processes=2)  # the marks in pyproject.toml
_RANDOM = "(random or thorough) and not (soak or semantics or cluster or connectors or long)"
TIERS = (
    Tier("thorough", "all random examples, new every day, and long cases", _RANDOM, 2),
    Tier("semantics", "every supported expression and form of a query against Spark", "semantics", 2, spread="load"),
    Tier("faults", "kills, damage and recoveries", "soak", 2),
    Tier("cluster", "a standalone Spark cluster on this machine", "cluster"),
    Tier("connectors", "a real Kafka broker and a real Postgres, with kills", "connectors"),
    Tier(
        "long", "ten thousand ticks: nothing grows", "long", 1, ("-rP", "-o", "faulthandler_timeout=0"), is_quick=False
    ),
)


@dataclass(frozen=True)
class Outcome:
    tier: Tier
    seconds: float
    code: int
    tests: int = 0
    failed: int = 0
    skipped: int = 0


def pytest_command(tier: Tier, options: list[str]) -> list[str]:
    command = [sys.executable, "-m", "pytest", *(["-m", tier.marks] if tier.marks else []), *tier.options]
    processes = min(tier.processes, os.cpu_count() or 1)
    if processes > 1:
        # The tests of a file stay together, so that its fixtures are made once, unless one file has most of the work;
        # files in the order of their names, as the long ones are not last there. A test that takes its process with
        # it ends the run instead of leaving the other processes to wait.
        command += ["-n", str(processes), "--dist", tier.spread, "--no-loadscope-reorder", "--max-worker-restart", "0"]
    return command + options


def run_commit(options: list[str]) -> int:
    """Linters and types are checked beside the tests, which wait a lot for Spark. What is wrong is shown last."""
    checks = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
    running = [
        (check, subprocess.Popen([sys.executable, "-m", *check], stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for check in checks
    ]
    environment = {**os.environ, **quick_java()}
    failed = subprocess.run(pytest_command(COMMIT, options), env=environment, check=False).returncode
    for check, process in running:
        said, _ = process.communicate()
        if process.returncode:
            print(f"\n{' '.join(check)} failed:\n{said.decode()}", file=sys.stderr)
            failed = failed or 1
    return failed


def run_tier(tier: Tier, options: list[str], seed: str) -> Outcome:
    java = quick_java() if tier.is_quick else {}
    environment = {**os.environ, **java, "HYPOTHESIS_PROFILE": "all", SEED: seed}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [*pytest_command(tier, options), f"--hypothesis-seed={seed}", f"--junitxml={report}"]
        began = time.monotonic()
        code = subprocess.run(command, env=environment, check=False).returncode
        seconds = time.monotonic() - began
        if not report.exists():
            return Outcome(tier, seconds, code)
        suite = ElementTree.parse(report).getroot()[0]
        count = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    return Outcome(tier, seconds, code, count["tests"], count["failures"] + count["errors"], count["skipped"])


def table_of(outcomes: list[Outcome], seed: str) -> Table:
    table = Table("tier", "what", "passed", "failed", "skipped", "minutes", title=f"test-all, random seed {seed}")
    for outcome in outcomes:
        passed = outcome.tests - outcome.failed - outcome.skipped
        failed = str(outcome.failed) if outcome.tests else f"no test ran (exit code {outcome.code})"
        table.add_row(
            outcome.tier.name,
            outcome.tier.what,
            str(passed),
            failed,
            str(outcome.skipped),
            f"{outcome.seconds / 60:.1f}",
        )
    return table


def run_tiers(tiers: tuple[Tier, ...], options: list[str]) -> int:
    seed = os.environ.get(SEED) or f"{datetime.datetime.now(datetime.UTC):%Y%m%d}"
    console, outcomes = Console(), []
    for number, tier in enumerate(tiers, 1):
        console.rule(f"{tier.name} ({number} of {len(tiers)}): {tier.what}; random seed {seed}")
        outcomes.append(run_tier(tier, options, seed))
    console.print(table_of(outcomes, seed))
    failed = [outcome.tier.name for outcome in outcomes if outcome.code]
    for name in failed:
        console.print(f"To repeat {name} with the same random examples: {SEED}={seed} ./run test-{name}")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    known = {tier.name: (tier,) for tier in TIERS} | {"all": TIERS}
    match arguments:
        case ["commit", *options]:
            return run_commit(options)
        case [name, *options] if name in known:
            return run_tiers(known[name], options)
    print(f"There is no such tier. There are: commit, {', '.join(known)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
