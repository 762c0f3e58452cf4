"""The README's example: its text is the file's, and a run gives what the README shows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import watersmeet
from tests.docs.pages import ROOT, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = ROOT / "examples" / "orders"


def shown(language: str) -> str:
    return next(block.text for block in read(ROOT / "README.md").blocks if block.language == language)


def test_the_readme_shows_the_pipeline() -> None:
    assert shown("sql") + "\n" == (EXAMPLE / "pipeline.sql").read_text()


def test_a_run_gives_what_the_readme_shows(spark: SparkSession, tmp_path: Path) -> None:
    project = tmp_path / "orders"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("results", "watersmeet-home"))
    engine = watersmeet.Engine(spark, home=project / "watersmeet-home")
    engine.sql((project / "pipeline.sql").read_text(), project / "pipeline.sql")
    engine.run_once(flush=True)
    engine.stop()
    written = [line for file in project.glob("results/*/*.json") for line in file.read_text().splitlines()]
    assert sorted(written) == sorted(shown("text").splitlines())
