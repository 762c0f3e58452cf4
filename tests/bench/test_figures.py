"""What the benchmarks make of the numbers they measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from bench import targets
from bench.changes import figures, main
from bench.comparing import Figures, date_files, first_ticks
from bench.observe import Observed
from bench.workloads import three_way


def test_cpu_time_between_two_moments_is_interpolated() -> None:
    seen = Observed(at=[0.0, 10.0, 20.0], cpu=[0.0, 10.0, 30.0])
    assert seen.cpu_within(5.0, 15.0) == pytest.approx(15.0)
    assert seen.cpu_within(-5.0, 99.0) == pytest.approx(30.0)


def test_a_slow_system_gets_the_first_ticks(tmp_path: Path) -> None:
    whole = three_way.make(tmp_path, scale=0.005)
    date_files(whole)
    part = first_ticks(whole, 3)
    assert part.ticks == 3
    assert part.counted(skip=1) == {"r": 2000, "s": 2000, "t": 2000}
    names = sorted(path.name for path in Path(part.folder, "r").iterdir())
    assert names == ["000000.parquet", "000001.parquet", "000002.parquet"]
    dates = [Path(part.folder, "r", name).stat().st_mtime for name in names]
    assert [date - dates[0] for date in dates] == [0, 1, 2]


def test_compare_shows_ratios_and_rejects_different_workloads(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for path, workload, speed in zip(paths, ("x", "x", "y"), (200.0, 300.0, 1.0), strict=True):
        path.write_text(json.dumps({"workload": workload, "machine": {"cores": 2}, "speeds": {"ours": [speed]}}))
    app = Typer()
    app.command()(main)
    shown = CliRunner().invoke(app, [str(paths[0]), str(paths[1])])
    assert shown.exit_code == 0
    assert "speeds.ours[0]" in shown.output
    assert "1.50 ×" in shown.output
    rejected = CliRunner().invoke(app, [str(paths[0]), str(paths[2])])
    assert rejected.exit_code != 0
    assert dict(figures({"a": {"b": 1, "c": True, "d": "text"}})) == {"a.b": 1.0}


def test_targets_compare_speed_and_state_with_the_joint_plan() -> None:
    def system(name: str, speed: float, cpu: float, state: int) -> Figures:
        return Figures(name, name, speed, speed, cpu, 0, state, 0, 8, 1.0, {}, "")

    found = [system("joint", 300.0, 1.0, 100), system("alone", 100.0, 2.0, 100), system("each", 100.0, 2.0, 300)]
    shown = targets.table("tpch-5", found)
    assert shown is not None
    rows = list(zip(*(column.cells for column in shown.columns), strict=True))
    assert rows == [
        ("each", "speed", "2.60 ×", "3.00 ×", "2.00 ×", "met"),
        ("alone", "speed", "2.60 ×", "3.00 ×", "2.00 ×", "met"),
        ("each", "state", "3.10 ×", "3.00 ×", "", "missed"),
    ]
    assert targets.table("nexmark", found) is None


def test_targets_in_cpu_time_are_open_where_a_run_was_too_short() -> None:
    def system(name: str, cpu: float | None) -> Figures:
        return Figures(name, name, 1.0, 1.0, cpu, 0, 0, 0, 8, 1.0, {}, "")

    def shown(cpu: float | None) -> tuple[object, ...]:
        table = targets.table("three-way-10", [system("joint", 0.5), system("duckdb-loop", cpu)])
        assert table is not None
        return tuple(next(iter(column.cells)) for column in table.columns)

    assert shown(2.5) == ("duckdb-loop", "CPU time", "4.00 ×", "5.00 ×", "", "met")
    assert shown(1.9) == ("duckdb-loop", "CPU time", "4.00 ×", "3.80 ×", "", "missed")
    assert shown(None) == ("duckdb-loop", "CPU time", "4.00 ×", "", "", "")
