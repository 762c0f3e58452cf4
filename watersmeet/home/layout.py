"""Every path and file name of a home folder. No other module has one (tests/home/test_layout.py).

    manifests/<tick>.json            what is committed; the newest one is the truth, a few older ones are kept
    state/<store>/*.bucket           buckets, named tick-attempt-task-number
    results/<query>/                 result files, named tick-attempt-task, of queries without INTO 'path'
    counts/                          matches of queries INTO count
    rejected/<stream>/               rows set aside with the reason, and files.jsonl for whole files
      …/_staging/*.staged            in each of the last three: files of the tick that runs
    positions/<group>.jsonl          which files each batch of a group of folders has
    checkpoints/<group>/             positions of other sources, written by Spark
    orders/<run>/                    plan files, and <group>/<batch>.pickle for tasks of Structured Streaming
    groups.json                      which streams share a feed, and their columns
    changes.jsonl                    queries added and dropped while the engine ran
    queries.json                     the queries as they were last put in force
    control/inbox/, control/answers/ requests of other processes, and the answers
    delivered/<query>                the last tick that callables and the console were given
    lock                             held while an engine runs
    ticks.jsonl                      rows, results and times of each tick
    plans.jsonl, statistics.json     decisions about the plan; what was measured of the data
    predicates.jsonl                 what registered predicates did wrong
    spark.log, error.log             what Spark said; tracebacks of internal errors

`_<name>.draft` beside any of these is a file that is being written.
"""

from __future__ import annotations

from pathlib import Path

STAGING = "_staging"  # Spark and Arrow skip names that begin with an underscore
JSON_FILES = "*.json"  # manifests, requests or answers in their folder
DRAFTS = "*.draft"


def draft(path: Path) -> Path:
    """The name under which a file is written before it is renamed."""
    return path.with_name(f"_{path.name}.draft")


def rotated(log: Path) -> Path:
    """The name of a long log once a new one has begun."""
    return log.with_suffix(".old")


# What is committed ---------------------------------------------------------------------------------


def manifests(home: Path) -> Path:
    return home / "manifests"


def manifest(home: Path, tick: int) -> Path:
    return manifests(home) / f"{tick:012d}.json"


def manifest_draft(home: Path, tick: int, process: int) -> Path:
    """Each process has its own, so that the late write of one cannot change what another commits."""
    return manifests(home) / f"{tick:012d}.{process}.draft"


def state(home: Path) -> Path:
    return home / "state"


def bucket_file(store: str, tick: int, attempt: str, task: str) -> str:
    """Relative to the home. `task` is new for each file of an attempt, so that no file is written twice."""
    return f"state/{store}/{tick:012d}-{attempt}-{task}.bucket"


def data_file(tick: int, attempt: str, task: str, extension: str) -> str:
    """The name of a file with results, counts or rows set aside, in its folder."""
    return f"{tick:012d}-{attempt}-{task}.{extension}"


def data_files(tick: int, extension: str) -> str:
    """A pattern for the files of a tick in such a folder."""
    return f"{tick:012d}-*.{extension}"


def staged(folder: Path, name: str) -> Path:
    """Where a file is written before the manifest of its tick exists: no pattern like *.parquet finds it there."""
    return folder / STAGING / f"{name}.staged"


def all_results(home: Path) -> Path:
    return home / "results"


def results(home: Path, query: str) -> Path:
    return all_results(home) / query


def columns_in(folder: Path) -> Path:
    """The columns of a result folder, for a check on restart."""
    return folder / "_columns"


def empty_in(folder: Path) -> Path:
    """A Parquet file without rows, which makes a result folder readable before the first result."""
    return folder / "empty.parquet"


def counts(home: Path) -> Path:
    """Where the matches of queries that only count them are listed: rows of tick, query, matches."""
    return home / "counts"


def all_rejected(home: Path) -> Path:
    return home / "rejected"


def rejected(home: Path, stream: str) -> Path:
    return all_rejected(home) / stream


def rejected_files(home: Path, stream: str) -> Path:
    return rejected(home, stream) / "files.jsonl"


def delivered(home: Path, query: str) -> Path:
    return home / "delivered" / query


# Sources -------------------------------------------------------------------------------------------


def groups(home: Path) -> Path:
    return home / "groups.json"


def positions(home: Path, group: str) -> Path:
    return home / "positions" / f"{group}.jsonl"


def checkpoint(home: Path, group: str) -> Path:
    return home / "checkpoints" / group


def offsets(home: Path, group: str, batch: int) -> Path:
    """Spark's log of how far each source of a batch goes."""
    return checkpoint(home, group) / "offsets" / str(batch)


def source_log(home: Path, group: str, source: int, offset: int) -> Path:
    """Spark's log of the files of one source."""
    return checkpoint(home, group) / "sources" / str(source) / str(offset)


# Orders --------------------------------------------------------------------------------------------


def orders(home: Path) -> Path:
    return home / "orders"


def plan_file(home: Path, run: str, version: str, number: int) -> Path:
    return orders(home) / run / f"{version}-{number}.plan"


def batch_order(home: Path, run: str, group: str, batch: int | str) -> Path:
    """Batch numbers come again after a restart, so `run` keeps the late order of a dead engine from its tasks."""
    return orders(home) / run / group / f"{batch}.pickle"


# Control -------------------------------------------------------------------------------------------


def lock(home: Path) -> Path:
    return home / "lock"


def changes(home: Path) -> Path:
    return home / "changes.jsonl"


def queries(home: Path) -> Path:
    return home / "queries.json"


def inbox(home: Path) -> Path:
    return home / "control" / "inbox"


def answers(home: Path) -> Path:
    return home / "control" / "answers"


def message(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


# Logs and advice -----------------------------------------------------------------------------------


def ticks(home: Path) -> Path:
    return home / "ticks.jsonl"


def plans(home: Path) -> Path:
    return home / "plans.jsonl"


def statistics(home: Path) -> Path:
    return home / "statistics.json"


def predicates(home: Path) -> Path:
    return home / "predicates.jsonl"


def spark_log(home: Path) -> Path:
    return home / "spark.log"


def error_log(home: Path) -> Path:
    return home / "error.log"
