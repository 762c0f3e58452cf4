"""Runs with settings that no user has: `python -m bench.research PIPELINE HOME OPTIONS` takes the options as JSON.

Experiments compare other layouts, costs, partitions and ways to share (`optimize/research.py`). The command line knows
none of them, so such a run is a program of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from watersmeet.optimize.research import Research

_NAMES = {setting.name for setting in fields(Research)}


def engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an engine, with the settings of an experiment as one value."""
    settings = {name: value for name, value in options.items() if name in _NAMES}
    others = {name: value for name, value in options.items() if name not in _NAMES}
    return {**others, "research": Research(**settings)} if settings else others


def command(pipeline: Path, home: Path, options: Mapping[str, Any]) -> list[str]:
    """`watersmeet run --once`, as a person starts it; with settings of an experiment, this program."""
    if _NAMES & options.keys():
        return [sys.executable, "-m", "bench.research", str(pipeline), str(home), json.dumps(dict(options))]
    sets = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    return [sys.executable, "-m", "watersmeet.cli", "run", str(pipeline), "--once", "--home", str(home), *sets]


def main(pipeline: str, home: str, options: str) -> None:
    from watersmeet import Engine

    with Engine(home=home, **engine_options(json.loads(options))) as engine:
        engine.sql(Path(pipeline).read_text(), pipeline)
        engine.run_once()


if __name__ == "__main__":
    main(*sys.argv[1:])
