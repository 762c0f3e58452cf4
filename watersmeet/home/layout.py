"""Every path and file name of a home folder. No other module has one (tests/home/test_layout.py)."""

from __future__ import annotations

import re
from pathlib import Path

# Folders of a home
MANIFESTS = "manifests"  # what is committed, by tick; the newest one is the truth, a few older ones are kept
STATE = "state"  # buckets, in a folder for each store
RESULTS = "results"  # of queries without INTO 'path', in a folder for each
COUNTS = "counts"  # matches of queries INTO count: rows of tick, query, matches
REJECTED = "rejected"  # rows set aside with the reason, and a list of whole files, in a folder for each stream
POSITIONS = "positions"  # what each batch of a group has of its sources
CHECKPOINTS = "checkpoints"  # positions of other sources, written by Spark
ORDERS = "orders"  # by run of the engine: plan files, and orders for tasks of Structured Streaming
STOP = "orders/stop"  # a sign for tasks: the engine stops, and does not wait for the tick that runs
COMPUTING = "orders/computing"  # signs of tasks in which Spark computes columns
DROPPED = "orders/dropped"  # signs for tasks: queries that were dropped while the tick ran
WAITING = "waiting"  # results of many queries in a file, until they become files of their queries
OUTBOX = "outbox"  # results that go to a target outside, in a folder for each query, until they are delivered
DELIVERED = "delivered"  # by query, the last tick that callables and the console were given
INBOX = "control/inbox"  # requests of other processes,
ANSWERS = "control/answers"  # and what they were told
FOLDERS = (
    MANIFESTS,
    STATE,
    RESULTS,
    COUNTS,
    REJECTED,
    POSITIONS,
    CHECKPOINTS,
    ORDERS,
    WAITING,
    OUTBOX,
    DELIVERED,
    "control",
)

# Files of a home
LOCK = "lock"  # held while an engine runs
IDENTITY = "identity"  # the tag of the home, from before its first tick; later the manifest has it too
GROUPS = "groups.json"  # which streams share a feed, and their columns
CHANGES = "changes.jsonl"  # queries added and dropped while the engine ran
QUERIES = "queries.json"  # the queries as they were last activated
SLICES = "slices.json"  # which queries the slice stores were founded by
LANES = "outbox/lanes.jsonl"  # what was last known of deliveries
TICKS = "ticks.jsonl"  # rows, results and times of each tick
PLANS = "plans.jsonl"  # decisions about the plan
STATISTICS = "statistics.json"  # what was measured of the data
PREDICATES = "predicates.jsonl"  # what registered predicates did wrong
SPARK_LOG = "spark.log"
ERROR_LOG = "error.log"  # tracebacks of internal errors

# Inside a folder with results, counts or rejected rows
STAGING = "_staging"  # files of the tick that runs; Spark and Arrow skip names that begin with an underscore
COLUMNS = "_columns"  # of a query's results, for a check on restart
OWNER = "_home"  # in a folder that INTO names: which home writes its results there
EMPTY = "empty.parquet"  # makes the folder readable before the first result

JSON_FILES, DRAFTS = "*.json", "*.draft"
_DATA_FILE = re.compile(r"(\d{12})-([0-9a-f]{8,16})-[^/]+\.(?:parquet|json|csv)(?:\.staged)?")


def is_home(folder: Path) -> bool:
    """Whether an engine runs, or has run, with this folder as its home."""
    return (folder / LOCK).is_file() and ((folder / MANIFESTS).is_dir() or (folder / INBOX).is_dir())


def draft(path: Path) -> Path:
    """The name under which a file is written before it is renamed."""
    return path.with_name(f"_{path.name}.draft")


def owner_draft(folder: Path, unique: str) -> Path:
    """The name under which a home writes its mark of a result folder: two homes may do so at the same time."""
    return folder / f"{OWNER}.{unique}.draft"


def rotated(log: Path) -> Path:
    """The name of a long log once a new one has begun."""
    return log.with_suffix(".old")


def manifest(home: Path, tick: int) -> Path:
    return home / MANIFESTS / f"{tick:012d}.json"


def manifest_draft(home: Path, tick: int, process: int) -> Path:
    """The name under which a process writes a manifest: its own, so that a late write changes no other commit."""
    return home / MANIFESTS / f"{tick:012d}.{process}.draft"


def bucket_file(store: str, tick: int, attempt: str, task: str) -> str:
    """Relative to the home. `task` is new for each file of an attempt, so that no file is written twice."""
    return f"{STATE}/{store}/{tick:012d}-{attempt}-{task}.bucket"


def waiting_file(tick: int, attempt: str, task: str) -> str:
    """Relative to the home."""
    return f"{WAITING}/{tick:012d}-{attempt}-{task}.results"


def data_file(tick: int, attempt: str, task: str, extension: str) -> str:
    """The name of a file with results, counts or rejected rows, in its folder."""
    return f"{tick:012d}-{attempt}-{task}.{extension}"


def data_files(tick: int, extension: str) -> str:
    """A pattern for the files of a tick in such a folder."""
    return f"{tick:012d}-*.{extension}"


def tick_of(name: str, tag: str = "") -> int | None:
    """The tick in the name of such a file, published or staged; None for other files, and those of another home."""
    found = _DATA_FILE.fullmatch(name)
    return int(found[1]) if found and found[2].startswith(tag) else None


def is_of_another_home(name: str, tag: str) -> bool:
    """Whether a name is that of a file of another home. Names of versions before tags existed do not tell."""
    found = _DATA_FILE.fullmatch(name)
    return found is not None and len(found[2]) > len(tag) and not found[2].startswith(tag)


def staged(folder: Path, name: str) -> Path:
    """Where a file is written before the manifest of its tick exists: no pattern like *.parquet finds it there."""
    return Path(f"{folder}/{STAGING}/{name}.staged")


def put_aside(folder: Path, tick: int) -> Path:
    """Where results up to a tick are once another query has taken over the folder; readers of the folder skip it."""
    return folder / f"_until_tick_{tick}"


def results(home: Path, query: str) -> Path:
    return home / RESULTS / query


def outbox(home: Path, query: str) -> Path:
    return home / OUTBOX / query


def rejected(home: Path, stream: str) -> Path:
    return home / REJECTED / stream


def rejected_files(home: Path, stream: str) -> Path:
    return rejected(home, stream) / "files.jsonl"


def retry_request(home: Path, stream: str) -> Path:
    """Exists while files of the stream that were set aside are to be taken after all."""
    return rejected(home, stream) / "_retry"


def delivered(home: Path, query: str) -> Path:
    return home / DELIVERED / query


def positions(home: Path, group: str) -> Path:
    """The log of what each batch of a group has. Earlier versions had other names for those of topics and tables."""
    usual, *earlier = (home / POSITIONS / f"{group}{kind}.jsonl" for kind in ("", ".offsets", ".ranges"))
    return next((log for log in earlier if log.exists()), usual)


def groups_with_positions(home: Path) -> set[str]:
    """Groups that have begun a batch, whatever their sources are."""
    logs = {path.name.partition(".")[0] for path in (home / POSITIONS).glob("*.jsonl")}
    return {name for name in logs.union(path.name for path in (home / CHECKPOINTS).glob("*")) if name.isdigit()}


def checkpoint(home: Path, group: str) -> Path:
    return home / CHECKPOINTS / group


def offsets(home: Path, group: str, batch: int) -> Path:
    """Spark's log of how far each source of a batch goes."""
    return checkpoint(home, group) / "offsets" / str(batch)


def commits(home: Path, group: str, batch: int) -> Path:
    """Spark's log of the batches that are done."""
    return checkpoint(home, group) / "commits" / str(batch)


def source_log(home: Path, group: str, source: int, offset: int) -> Path:
    """Spark's log of the files of one source."""
    return checkpoint(home, group) / "sources" / str(source) / str(offset)


def plan_file(home: Path, run: str, version: str, number: int) -> Path:
    return home / ORDERS / run / f"{version}-{number}.plan"


def batch_order(home: Path, run: str, group: str, batch: int | str) -> Path:
    """The order of a batch. Batch numbers come again after a restart, so `run` tells a dead engine's orders apart."""
    return home / ORDERS / run / group / f"{batch}.pickle"


def dropped(home: Path, query: str) -> Path:
    return home / DROPPED / query


def computing(home: Path, job: str, task: int) -> Path:
    return home / COMPUTING / f"{job}-{task}"


def message(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"
