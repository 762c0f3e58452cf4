"""A pipeline run by the command line, as a person runs it, and what its home tells afterwards."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.observe import Observed, observe
from bench.research import command
from watersmeet.home import layout
from watersmeet.home.manifest import load_newest


@dataclass(frozen=True)
class Measured:
    ended: list[float]  # by tick, in seconds
    results: int
    state_bytes: int
    observed: Observed  # of all processes of the run

    def cpu_seconds_per_tick(self, last: int) -> float:
        return self.observed.cpu_within(self.ended[-1 - last], self.ended[-1]) / last

    def seconds_per_tick(self, last: int) -> float:
        return (self.ended[-1] - self.ended[-1 - last]) / last

    def seconds_of_ticks(self, last: int) -> list[float]:
        return [after - before for before, after in pairwise(self.ended[-1 - last :])]


def run_pipeline(script: str, home: Path, **options: Any) -> Measured:
    """`watersmeet run --once` until all input is processed."""
    pipeline = home.with_suffix(".sql")
    pipeline.write_text(script)
    running = subprocess.Popen(
        command(pipeline, home, options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    observed, watching = observe(running, None)
    _, complaints = running.communicate()
    watching.join()
    if running.returncode:
        raise SystemExit(f"{pipeline} failed:\n{complaints[-3000:]}")
    manifest = load_newest(home)
    return Measured(
        [json.loads(line)["finished_at"] for line in (home / layout.TICKS).read_text().splitlines()],
        manifest.totals.results.total(),
        sum(bucket.bytes for bucket in manifest.buckets),
        observed,
    )
