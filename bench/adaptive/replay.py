"""One run over prepared files in a process of its own: `python -m bench.adaptive.replay ARGUMENTS` prints JSON.

Every tick reads one file of each stream. Ticks follow each other at once; `__main__` compares their times with the
pace at which the files would have come."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from bench.observe import CLOSELY, observe
from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.home import layout


@dataclass(frozen=True)
class Run:
    seconds: list[float]  # of each tick
    ended: list[float]  # when each tick was committed
    state_rows: list[int]  # after each tick, in all stores
    state_bytes: list[int]
    results: int
    decisions: list[dict[str, Any]]
    cpu: tuple[float, ...] = ()  # seconds of all processes since the tick before; 0 for the first one


def replay(script: str, home: str, statistics: dict[str, Any], **options: Any) -> Run:
    """In another process, so that one run leaves nothing warm for the next."""
    arguments = json.dumps({"script": script, "home": home, "statistics": statistics, "options": options})
    command = [sys.executable, "-m", "bench.adaptive.replay", arguments]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as complaints:
        running = subprocess.Popen(command, stdout=out, stderr=complaints, text=True)
        seen, looking = observe(running, None, CLOSELY)
        running.wait()
        looking.join()
        out.seek(0)
        complaints.seek(0)
        lines = [line for line in out if line.startswith("{")]
        if running.returncode or not lines:
            raise SystemExit(f"the run failed:\n{complaints.read()[-3000:]}")
    made = Run(**json.loads(lines[-1]))
    return replace(made, cpu=(0.0, *(seen.cpu_within(*times) for times in pairwise(made.ended))))


def run(script: str, home: str, statistics: dict[str, Any], options: dict[str, Any]) -> Run:
    folder = Path(home)
    folder.mkdir(parents=True)
    (folder / layout.STATISTICS).write_text(
        json.dumps({"statistics": statistics})
    )  # as if an earlier life had measured it
    engine = Engine(home=folder, **options)
    engine.sql(script)
    state: dict[int, tuple[int, int]] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            seen = engine.stats()
            state[seen.tick] = (sum(store.rows for store in seen.stores), seen.state_bytes)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    with engine:
        engine.run_once()
        results = engine.stats().queries[0].results
    ended.set()
    watcher.join()
    ticks = [json.loads(line) for line in (folder / layout.TICKS).read_text().splitlines()]
    seconds = [tick["gather"] + tick["probe"] + tick["commit"] for tick in ticks]
    rows, sizes, last = [], [], (0, 0)
    for tick in ticks:
        last = state.get(tick["tick"], last)
        rows.append(last[0])
        sizes.append(last[1])
    times = [tick["finished_at"] for tick in ticks]
    return Run(
        seconds=seconds,
        ended=times,
        state_rows=rows,
        state_bytes=sizes,
        results=results,
        decisions=[asdict(one) for one in decisions(folder)],
    )


if __name__ == "__main__":
    print(json.dumps(asdict(run(**json.loads(sys.argv[1])))))
