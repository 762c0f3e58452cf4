"""A comparison as a table, as JSON with the machine's facts, and as a bar chart."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench import charts, targets
from bench.comparing import Figures

OUT = Path(__file__).parent / "out"


def machine() -> dict[str, Any]:
    """Where and when; how busy the machine was with other work at the end tells how far to trust the figures."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load": os.getloadavg(),
        "machine": platform.machine(),
        "processor": _processor(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("watersmeet", "pyspark", "duckdb", "pyarrow", "numba")},
        "peers": _peers(),
    }


def _peers() -> dict[str, str]:
    """The pinned versions of the peers in environments of their own."""
    found = {}
    for path in sorted((Path(__file__).parent / "peers").glob("requirements-*.txt")):
        for line in path.read_text().splitlines():
            name, _, number = line.partition("==")
            if name in ("apache-flink", "pathway", "tpchgen-cli"):
                found[name] = number
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")


def write_json(workload: str, figures: dict[str, Any]) -> None:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{workload}.json"
    path.write_text(json.dumps({"workload": workload, "machine": machine(), **figures}, indent=1))
    print(f"written: {path}")


def write_picture(name: str, picture: str) -> None:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.svg"
    path.write_text(picture)
    print(f"written: {path}")


def speed_bars(title: str, found: Sequence[Figures]) -> str:
    values = {one.title: one.rows_per_second for one in found}
    return charts.bars(title, "input rows/s", values, highlight="Watersmeet")


def show(workload: str, title: str, found: Sequence[Figures], profile: bool) -> None:
    base = found[0]
    table = Table(title=title)
    table.add_column("system")
    for column in ("input rows/s", "first ÷ this", "overall rows/s", "CPU s/M rows", "memory", "state", "ticks"):
        table.add_column(column, justify="right")
    table.add_column("note")
    for one in found:
        table.add_row(
            one.title,
            f"{one.rows_per_second:,.0f}",
            f"{base.rows_per_second / one.rows_per_second:.2f} ×",
            f"{one.overall_rows_per_second:,.0f}",
            "" if one.cpu_seconds_per_million_rows is None else f"{one.cpu_seconds_per_million_rows:.2f}",
            _megabytes(one.memory_bytes),
            _megabytes(one.state_bytes),
            str(one.ticks),
            one.note,
        )
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table)
    if (wanted := targets.table(workload, found)) is not None:
        console.print(wanted)
    if profile and any(one.parts for one in found):
        console.print(_stages(found))
    write_picture(workload, speed_bars(f"{workload}: speed of each system", found))
    write_json(workload, {"systems": {one.system: asdict(one) for one in found}})


def _stages(found: Sequence[Figures]) -> Table:
    """Where the time of a tick goes."""
    names = list(dict.fromkeys(name for one in found for name in one.parts))
    table = Table(title="seconds of a tick, by stage")
    table.add_column("system")
    for name in [*names, "tick"]:
        table.add_column(name, justify="right")
    for one in found:
        if one.parts:
            total = sum(one.parts.values())
            cells = (f"{one.parts[name]:.3f} ({one.parts[name] / total:.0%})" for name in names)
            table.add_row(one.title, *cells, f"{total:.3f}")
    return table


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f} MB"
