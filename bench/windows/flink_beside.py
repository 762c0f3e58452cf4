"""Flink with the windowed queries of the advertising workload, one statement set; its results are those of the loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import duckdb

from bench.comparing import BENCH
from bench.windows.advertising import MICROS, Question
from bench.windows.running import Run, peer

CSV = {
    "impressions": "epoch_us(ts), id, person, site, campaign, price",
    "clicks": "epoch_us(ts), impression, cost",
}
PYTHON = BENCH / ".venv-flink" / "bin" / "python"


def answers_of_flink(folder: Path, questions: Sequence[Question], ticks: int, rows: int) -> Run:
    """Over the first ticks, which have so many rows. Flink's time is that of its job, from its start to its end."""
    with duckdb.connect() as connection:
        for name, columns in CSV.items():
            (folder / "csv" / name).mkdir(parents=True)
            for file in sorted((folder / "in" / name).glob("*.parquet"))[:ticks]:
                target = folder / "csv" / name / f"{file.stem}.csv"
                connection.execute(f"COPY (SELECT {columns} FROM '{file}') TO '{target}' (HEADER false)")
    texts = {each.name: each.flink for each in questions}
    described = {"folder": str(folder / "csv"), "ticks": ticks, "texts": texts}
    printed, observed = peer(
        [str(PYTHON), "-m", "bench.windows.flink_questions_peer"], json.dumps(described), folder / "flink"
    )
    began, ended = json.loads(printed)
    return Run(
        system="Flink",
        cpu=observed.cpu_within(began, ended),
        seconds=ended - began,
        rows=rows,
        results=0,
        queries=len(questions),
        note=f"{ticks} ticks, CSV in and out",
        memory_bytes=observed.memory,
    )


def closed_by_flink(folder: Path, question: Question, ticks: int) -> str:
    """Its results as a relation, of the windows that close before the last tick ends."""
    columns = "{'w': 'BIGINT', 'k': 'VARCHAR', 'v': 'DOUBLE'}"
    read = f"read_csv('{folder}/flink/{question.name}/*', columns = {columns})"
    return f"SELECT make_timestamp(w) AS w, k, v FROM {read} WHERE w + {question.range * MICROS} < {ticks * MICROS}"
