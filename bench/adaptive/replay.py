"""One run over prepared files in a process of its own: `python -m bench.adaptive.replay ARGUMENTS` prints JSON.

Every tick reads one file of each stream. Ticks follow each other at once; `__main__` compares their times with the
pace at which the files would have come."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.home import layout


@dataclass(frozen=True)
class Run:
    seconds: list[float]  # of each tick
    state_rows: list[int]  # after each tick, in all stores
    state_bytes: list[int]
    results: int
    decisions: list[dict[str, Any]]


def replay(script: str, home: str, statistics: dict[str, Any], **options: Any) -> Run:
    """In another process, so that one run leaves nothing warm for the next."""
    arguments = json.dumps({"script": script, "home": home, "statistics": statistics, "options": options})
    command = [sys.executable, "-m", "bench.adaptive.replay", arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"the run failed:\n{done.stderr[-3000:]}")
    return Run(**json.loads(lines[-1]))


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
        while not ended.wait(0.02):
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
    return Run(seconds, rows, sizes, results, [asdict(one) for one in decisions(folder)])


if __name__ == "__main__":
    print(json.dumps(asdict(run(**json.loads(sys.argv[1])))))
