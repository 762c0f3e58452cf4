"""A file that Spark has not enough memory for is named, with what to do about it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import watersmeet_run
from tests.support.waiting import PATIENCE
from watersmeet.errors import RunError
from watersmeet.home import layout
from watersmeet.model import Column, Source, Stream
from watersmeet.runtime.feed.spark_files import SparkFiles

BEGIN = '{"id": 1, "at": "2026-01-01T00:00:00Z", "text": "'
PIPELINE = """
CREATE STREAM s (id INT, at TIMESTAMP, text STRING) TIMESTAMP BY at FROM json 'in';
CREATE QUERY q AS SELECT a.id FROM s [RANGE 1 SECOND] a, s [RANGE 1 SECOND] b WHERE a.id = b.id;
"""


def test_the_message_names_memory_stream_and_file(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("plain.json", "small.json.gz", "bomb.json.gz")]
    for file, size in zip(files, (5000, 10, 2000), strict=True):
        file.write_bytes(b"x" * size)
    home = tmp_path / "home"
    log, offsets = layout.source_log(home, "0", 0, 0), layout.offsets(home, "0", 0)
    for path in (log, offsets):
        path.parent.mkdir(parents=True)
    log.write_text("\n".join(["v1", *(json.dumps({"path": f"file://{file}", "batchId": 0}) for file in files)]))
    offsets.write_text('v1\n{}\n{"logOffset":0}')
    stream = Stream("s", (Column("at", "timestamp"),), "at", source=Source("json", str(tmp_path)))
    check = SparkFiles(home, "0", [stream])
    other = ValueError("something else")
    assert check.explained(0, other) is other
    told = check.explained(0, RuntimeError("java.lang.OutOfMemoryError: Java heap space"))
    assert isinstance(told, RunError)
    assert "stream s: " in told.problem and "out of memory" in told.problem and str(files[2]) in told.problem
    assert "empty file" in told.hint and "spark.driver.memory" in told.hint and str(home) in told.hint


ENDING = """
from watersmeet.runtime.tick.failure import spark_has_ended
from watersmeet.session import make_session

problem = RuntimeError("java.lang.NullPointerException: the return value of dagScheduler() is null")
context = make_session("local[1]").sparkContext
assert not spark_has_ended(problem)
context._jsc.sc().stop()  # as Java does by itself, while this process knows nothing of it
assert spark_has_ended(problem) and not spark_has_ended(ValueError("of Python"))
"""


@pytest.mark.soak
def test_what_fails_while_spark_ends_follows_from_that() -> None:
    run = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr


@pytest.mark.soak
def test_a_line_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small heap and a file of 400 kB that is a line of 400 MB; an empty file in its place, and the run goes on."""
    monkeypatch.chdir(tmp_path)
    Path("pipeline.sql").write_text(PIPELINE)
    Path("in").mkdir()
    Path("in/good.json").write_text(f'{BEGIN}a"}}\n')
    with gzip.open("in/bomb.json.gz", "wb") as file:
        file.write(BEGIN.encode())
        for _ in range(400):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n')
    command = ("pipeline.sql", "--once", "--home", "home", "--set", "spark.driver.memory=512m")
    for _ in range(2):  # each start meets it
        with watersmeet_run(*command, log=Path("run.log")) as run:
            assert run.process.wait(PATIENCE) == 1, run.said()
        said = "\n".join(run.said())
        assert f"stream s: Spark's Java process ran out of memory, probably by {tmp_path}/in/bomb.json.gz" in said
        assert "Traceback" not in said and "Exception" not in said, said
    Path("in/bomb.json.gz").write_bytes(b"")
    with watersmeet_run(*command, log=Path("run.log")) as run:
        assert run.process.wait(PATIENCE) == 0, run.said()
    assert any("s: 1 row" in line for line in run.said()), run.said()
