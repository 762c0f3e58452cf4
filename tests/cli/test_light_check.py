"""`check` answers at once: it loads neither Spark nor compiled loops nor a solver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from watersmeet.cli.sample_project import write_sample

PROGRAM = """
import sys
from typer.testing import CliRunner
from watersmeet.cli.app import app
result = CliRunner().invoke(app, ["check", "pipeline.sql"])
assert result.exit_code == 0, result.output
print([name for name in ("numba", "highspy", "pyspark", "scipy", "pandas") if name in sys.modules])
"""


def test_a_check_loads_nothing_that_takes_long(tmp_path: Path) -> None:
    write_sample(tmp_path / "shop")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path / "shop", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
