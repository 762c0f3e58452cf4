"""No test depends on the clock, or on the speed of the machine: nothing sleeps, measures time, or waits by a number.

A test waits for what it needs with `tests/support/waiting.py`, has a clock of its own (`tests/support/clock.py`), or
lets what must exceed a limit do so for ever. The exceptions are named here, each with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time", "monotonic_ns", "perf_counter_ns")
WAITS = ("wait", "join", "result", "settimeout", "communicate", "limit_waiting", "eventually", "happens", "Timer")

POLLS = "polls: how long it waits between two looks decides nothing"
ENDS_A_LOOK = "lets a failure be raised, and then looks again"
ANY_MOMENT = "a kill at any moment is right"
ENDLESS = "what exceeds it would never end"
CPU_TIME = "CPU time, of which the healthy expressions take a hundredth"
ANY_PLAN = "any plan is right"
ALLOWED = {
    ("support/waiting.py", "time.monotonic()"): "the limit of all waits",
    ("tiers.py", "time.monotonic()"): "is shown: how long a tier took",
    ("support/waiting.py", "time.sleep(0.02)"): POLLS,
    ("support/test_waiting.py", "time.sleep(3600)"): "never ends: it has to be interrupted",
    ("support/misbehaving_predicates.py", "time.sleep(0.01)"): "never ends",
    ("support/faults/program.py", "time.sleep(0.02)"): POLLS,
    ("support/stores/postgres_server.py", "ended.wait(0.05)"): POLLS,
    ("support/brokers/kafka.py", "ended.wait(0.2)"): POLLS,
    ("support/joining_engine.py", "self.engine.wait(0.01)"): ENDS_A_LOOK,
    ("runtime/test_by_spark.py", "engine.wait(0.01)"): ENDS_A_LOOK,
    ("runtime/test_driver_opens_nothing.py", "engine.wait(0.01)"): ENDS_A_LOOK,
    ("poison/test_beside_healthy.py", "engine.wait(0.01)"): ENDS_A_LOOK,
    ("poison/test_on_spark.py", "engine.wait(0.01)"): ENDS_A_LOOK,
    ("runtime/test_link.py", "limit_waiting(one, 0.1)"): "nobody ever sends anything",
    ("runtime/test_link.py", "limit_waiting(one, 0)"): "no limit",
    ("runtime/test_link.py", "threading.Timer(0.3, other.send_bytes, (b'late',))"): "is waited for without a limit",
    ("support/residents.py", "limit_waiting(connection, 0.1)"): "of a process that is stopped",
    ("control/test_running.py", "over.wait(0.1)"): "rows keep coming, at any pace",
    ("cli/test_run.py", "over.wait(0.1)"): POLLS,
    ("control/test_mailbox.py", "time.monotonic()"): "what an engine would reply; the latency has no limit but sense",
    ("control/test_planning_limits.py", "time.monotonic()"): "the time of a request, which nobody compares",
    ("long/feeding.py", "time.sleep(0.001)"): POLLS,
    ("long/test_levels.py", "time.sleep(0.02)"): POLLS,
    (
        "fault/test_kills.py",
        "time.sleep(chance.random() * chance.choice((0.2, 1, 4)))",
    ): ANY_MOMENT,
    ("connectors/test_kafka_source.py", "time.sleep(0.2)"): "messages that come while it runs, at any pace",
    ("connectors/test_kafka_hanging.py", "time.sleep(kills.pop(about))"): ANY_MOMENT,
    ("connectors/test_kafka_hanging.py", "time.sleep(0.25)"): POLLS,
    ("support/brokers/kafka.py", "admin.list_topics(timeout=1)"): "is asked again until it replies",
    ("control/test_commands.py", "mailbox.ask(Request('change'), timeout=0.1)"): "nobody ever replies",
    ("poison/test_rejected.py", "check_seconds=0.5"): ENDLESS,
    ("poison/test_on_spark.py", "check_seconds=3.0"): f"{ENDLESS}; for the others it is CPU time",
    ("runtime/test_predicates.py", "predicate_seconds=2.0"): f"{ENDLESS}; for the others it is CPU time",
    ("poison/test_on_spark.py", "expression_seconds=0.3"): CPU_TIME,
    ("poison/test_resources.py", "expression_seconds=0.3"): CPU_TIME,
    ("poison/test_resources.py", "stop_seconds=0.5"): ENDLESS,
    ("poison/test_windows.py", "window_seconds=0.01"): "no other query is computed by Spark",
    ("oracle/windowed/test_tasks.py", "window_seconds=0.2"): CPU_TIME,
    ("long/test_windows_in_little_memory.py", "time.sleep(0.2)"): POLLS,
    ("poison/test_windows.py", "stop_seconds=0"): "at once",
    ("poison/test_computed_by_spark.py", "stop_seconds=0"): "at once",
    ("poison/test_computed_by_spark.py", "expression_seconds=0"): "no limit",
    ("poison/test_beside_healthy.py", "settle_seconds=0.05"): "no file is written to while the engine runs",
    ("oracle/test_files.py", "settle_seconds=0"): "no file is written to while the engine runs",
    ("runtime/test_input_files.py", "settle_seconds=1"): "of a clock of the test's own",
    ("support/poisoned.py", "plan_seconds=0.05"): ANY_PLAN,
    ("support/faults/kafka_program.py", "plan_seconds=0.05"): ANY_PLAN,
    ("support/faults/stores_program.py", "plan_seconds=0.05"): ANY_PLAN,
    ("connectors/test_kafka_source.py", "plan_seconds=0.05"): ANY_PLAN,
    ("test_options.py", "plan_seconds=1"): "is read, and nothing is planned",
    ("test_options.py", "plan_seconds=1.0"): "is read, and nothing is planned",
}


def uses(tree: ast.AST) -> Iterator[str]:
    """Calls that sleep, read a clock, or wait for a number of seconds; and limits of the product in seconds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            seconds = [given.value for given in node.keywords if given.arg == "timeout"]
            if name in WAITS:
                seconds += node.args
            if name in ("sleep", *CLOCKS) or any(_is_number(given) for given in seconds):
                yield ast.unparse(node)
            yield from (ast.unparse(given) for given in node.keywords if _is_limit(given.arg or "", given.value))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_limit(key.value, value):
                    yield f"{key.value}={ast.unparse(value)}"


def _is_limit(name: str, given: ast.expr) -> bool:
    return name.endswith("_seconds") and _is_number(given)


def _is_number(given: ast.expr) -> bool:
    return isinstance(given, ast.Constant) and isinstance(given.value, int | float)


def test_nothing_waits_by_the_clock() -> None:
    found = {
        (str(path.relative_to(TESTS)), use) for path in TESTS.rglob("*.py") for use in uses(ast.parse(path.read_text()))
    }
    assert found - ALLOWED.keys() == set(), "wait for an event, or give the code a clock of the test's own"
    assert ALLOWED.keys() - found == set(), "these exceptions are not needed any more"


def test_what_waits_by_the_clock_is_found() -> None:
    text = """
time.sleep(1); thread.join(60); process.wait(timeout=5); began = time.monotonic(); queue.get(timeout=3)
subprocess.run(command, timeout=9); eventually(lambda: True, 7)
thread.join(); process.wait(PATIENCE); ", ".join(names); found.get("x", 0); eventually(lambda: True)
"""
    assert list(uses(ast.parse(text))) == [
        "time.sleep(1)",
        "thread.join(60)",
        "process.wait(timeout=5)",
        "time.monotonic()",
        "queue.get(timeout=3)",
        "subprocess.run(command, timeout=9)",
        "eventually(lambda: True, 7)",
    ]
