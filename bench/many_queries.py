"""Many queries at once, as the AJoin paper has them: `bench/run ajoin`, `adding` and `grouping`.

Each run is a `watersmeet run` of its own, as a person starts it; figures come from the log of its ticks.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import ajoin
from bench.pipeline import run_pipeline
from watersmeet.control.mailbox import Mailbox, Request
from watersmeet.home import layout
from watersmeet.home.manifest import load_newest

CHECKED = 20  # queries whose matches are compared with DuckDB's


@dataclass(frozen=True)
class Ticks:
    seconds: float  # of a tick, the middle one of those measured
    cpu: float  # seconds of all processes, the mean of those ticks
    probe: float  # of these, for probing
    state_bytes: int
    matches: int


def run_many(folder: Path, name: str, texts: list[str], last: int, **options: Any) -> Ticks:
    """A run of all queries, each into count, over the files in the folder; some are checked."""
    script = ajoin.streams_sql(folder / "in") + "".join(
        f"CREATE QUERY q{number} INTO count AS {text};\n" for number, text in enumerate(texts)
    )
    home = folder / name
    ours = run_pipeline(script, home, **options)
    chosen = sorted(random.Random(7).sample(range(len(texts)), min(CHECKED, len(texts))))
    expected = ajoin.oracle(folder / "in", [texts[number] for number in chosen])
    results = load_newest(home).totals.results
    found = [results[f"q{number}"] for number in chosen]
    assert found == expected, f"matches differ from DuckDB's: {found} and {expected}"
    ticks = _log(home)[-last:]
    middle, probe = median(map(_total, ticks)), median(tick["probe"] for tick in ticks)
    return Ticks(middle, ours.cpu_seconds_per_tick(last), probe, ours.state_bytes, ours.results)


def _log(home: Path) -> list[dict[str, Any]]:
    path = home / layout.TICKS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _total(tick: dict[str, Any]) -> float:
    return float(tick["gather"] + tick["probe"] + tick["commit"])


@dataclass(frozen=True)
class Adding:
    """What happened while queries were added."""

    before: list[float]  # seconds of the ticks before,
    during: list[float]  # while,
    after: list[float]  # and after it
    latencies: list[float]
    rejected: int
    queries: int


def add_while_running(folder: Path, rows: int, per_second: int, seconds: int) -> Adding:
    """Feed a tick's files every second, and send requests from this process to the one that runs."""
    warm, rest = 8, 8
    ajoin.write_streams(folder / "made", warm + seconds + rest + 60, rows)
    texts = ajoin.selects(1 + per_second * seconds)
    source, home = folder / "in", folder / "home"
    for name in ajoin.STREAMS:
        (source / name).mkdir(parents=True)
    pipeline = folder / "pipeline.sql"
    streams = ajoin.streams_sql(source).replace("maxFilesPerTrigger = 1", "maxFilesPerTrigger = 100")
    pipeline.write_text(streams + f"CREATE QUERY q0 INTO count AS {texts[0]};\n")
    command = [sys.executable, "-m", "watersmeet.cli", "run", str(pipeline), "--home", str(home)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mailbox = Mailbox(home)
    waiting: list[Request] = []
    latencies: list[float] = []
    rejected = sent = fed = 0
    began_adding = ended_adding = 0.0
    try:
        while True:
            second = time.time()
            for name in ajoin.STREAMS:
                (folder / "made" / name / f"{fed:06d}.parquet").rename(source / name / f"{fed:06d}.parquet")
            fed += 1
            committed = len(_log(home))
            if committed >= warm and sent < per_second * seconds:
                began_adding = began_adding or second
                for _ in range(per_second):
                    sent += 1
                    request = Request("change", script=f"CREATE QUERY q{sent} INTO count AS {texts[sent]};")
                    mailbox.send(request)
                    waiting.append(request)
            for request in list(waiting):
                answer = mailbox.hear(request)
                if answer is not None:
                    waiting.remove(request)
                    rejected += answer.error is not None
                    latencies.append(answer.latency)
            if sent >= per_second * seconds and not waiting:
                ended_adding = ended_adding or second
                if second > ended_adding + rest:
                    break
            if running.poll() is not None or fed >= warm + seconds + rest + 59:
                raise SystemExit("the engine ended or fell behind while queries were added")
            time.sleep(max(0.0, second + 1 - time.time()))
    finally:
        running.terminate()
        running.wait(60)
    ticks = _log(home)
    return Adding(
        before=[_total(tick) for tick in ticks[2:] if tick["finished_at"] < began_adding],
        during=[_total(tick) for tick in ticks if began_adding <= tick["finished_at"] < ended_adding],
        after=[_total(tick) for tick in ticks if tick["finished_at"] >= ended_adding],
        latencies=latencies,
        rejected=rejected,
        queries=len(load_newest(home).queries),
    )


def shared_selects(count: int, percent: int, seed: int = 3) -> list[str]:
    """Queries of one join; each row is wanted by about this percentage of them (AJoin, Fig. 22a)."""
    chance = random.Random(seed)
    width = ajoin.ATR_MAX * percent // 100
    made = []
    for _ in range(count):
        low = chance.randrange(ajoin.ATR_MAX - width + 1)
        inside = " AND ".join(f"{name}.x1 >= {low} AND {name}.x1 < {low + width}" for name in ajoin.STREAMS)
        made.append(f"SELECT * FROM a, b WHERE a.x0 = b.x0 AND {inside} WINDOW 2 SECONDS")
    return made
