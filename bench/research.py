"""Runs with settings that no user has: `python -m bench.research PIPELINE HOME OPTIONS` takes the options as JSON.

Experiments compare other layouts, costs, partitions and ways to share (`optimize/research.py`), and the forms of
windowed queries: `form` is the kind of the one in which they stay, whatever it costs. The command line knows none of
them, so such a run is a program of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from watersmeet.model import Query
from watersmeet.model.forms import Form
from watersmeet.optimize.research import Research
from watersmeet.windows import choose

FORM = "form"
_NAMES = {setting.name for setting in fields(Research)}


def engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an engine, with the settings of an experiment as one value."""
    settings = {name: value for name, value in options.items() if name in _NAMES}
    others = {name: value for name, value in options.items() if name not in _NAMES}
    return {**others, "research": Research(**settings)} if settings else others


def command(pipeline: Path, home: Path, options: Mapping[str, Any]) -> list[str]:
    """`watersmeet run --once`, as a person starts it; with settings of an experiment, this program."""
    if {FORM, *_NAMES} & options.keys():
        return [sys.executable, "-m", "bench.research", str(pipeline), str(home), json.dumps(dict(options))]
    sets = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    return [sys.executable, "-m", "watersmeet.cli", "run", str(pipeline), "--once", "--home", str(home), *sets]


def main(pipeline: str, home: str, options: str) -> None:
    from watersmeet import Engine

    asked = json.loads(options)
    if kind := asked.pop(FORM, ""):
        _stay_in(kind)
    with Engine(home=home, **engine_options(asked)) as engine:
        engine.sql(Path(pipeline).read_text(), pipeline)
        engine.run_once()


def _stay_in(kind: str) -> None:
    """Queries of this process have this form where they can; without adaptation they keep it."""

    def chosen(query: Query, *_: object) -> Form:
        return query.by_kind.get(kind, query.form)

    choose._chosen = chosen  # type: ignore[assignment]


if __name__ == "__main__":
    main(*sys.argv[1:])
