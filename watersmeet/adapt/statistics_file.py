"""`statistics.json` in the home: the measurements, for the first plan after a restart.

It is advice: a missing or damaged file means that nothing is known yet, and no result depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from watersmeet.adapt.measure import Measurements
from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.home.manifest import Manifest
from watersmeet.optimize.statistics import Named, Statistics, read_statistics


def remember(home: Path, tick: int, statistics: Statistics, measured: Measurements) -> None:
    middle, worst = measured.errors
    content = {
        "tick": tick,
        "statistics": as_json(statistics),  # may be given to `watersmeet explain --statistics` as it is
        "rates": measured.rates,
        "estimation_error": {"median": middle, "worst": worst, "steps": len(measured.steps)},
        "key_groups": {
            f"{stream}.{part.name}": {"skew": sketch.skew, "rows": sketch.groups.tolist()}
            for (stream, part), sketch in sorted(measured.sketches.items(), key=lambda item: str(item[0]))
        },
    }
    write_whole(home / layout.STATISTICS, json.dumps(content))


def recall(home: Path) -> Statistics | None:
    try:
        raw: Any = json.loads((home / layout.STATISTICS).read_text())
        return read_statistics(json.dumps(raw["statistics"]))
    except (OSError, ValueError, KeyError, TypeError, ModelError):
        return None


def first_statistics(home: Path, manifest: Manifest) -> Statistics:
    """What is known when an engine starts: what an earlier life of it measured, or the rows of the state alone."""
    return recall(home) or _rows_of_streams(manifest)


def _rows_of_streams(manifest: Manifest) -> Statistics:
    rows: dict[str, float] = {}
    for bucket in manifest.buckets:
        if not bucket.made_by and bucket.store not in manifest.materialized:
            rows[bucket.store] = rows.get(bucket.store, 0.0) + bucket.rows
    return Statistics(rows)


def as_json(statistics: Statistics) -> dict[str, Any]:
    def text(name: Named) -> str:
        return ".".join(name)

    def sides(pair: frozenset[Named]) -> tuple[str, str]:
        ends = sorted(map(text, pair))
        return ends[0], ends[-1]

    values: Mapping[frozenset[Named], float] = statistics.selectivities
    pairs = sorted((*sides(pair), value) for pair, value in values.items())
    return {
        "sizes": dict(sorted(statistics.sizes.items())),
        "selectivities": [{"left": left, "right": right, "value": value} for left, right, value in pairs],
        "distinct": {text(name): value for name, value in sorted(statistics.distinct.items())},
        "filters": [
            {"stream": stream, "filter": text, "value": value}
            for (stream, text), value in sorted(statistics.filters.items())
        ],
        "arrivals": dict(sorted(statistics.arrivals.items())),
        **({"seconds": statistics.seconds} if statistics.seconds > 0 else {}),
        "weights": dict(sorted(statistics.weights.items())),
        "progress": dict(sorted(statistics.progress.items())),
        "slices": {name: asdict(one) for name, one in sorted(statistics.slices.items())},
        "results": dict(sorted(statistics.results.items())),
    }
