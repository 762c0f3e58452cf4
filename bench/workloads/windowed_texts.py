"""The windowed queries in bench/workloads/windowed, each for Watersmeet and for DuckDB."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from watersmeet.model import Query, Stream
from watersmeet.sql import CreateStream, build_query, parse_script

FOLDER = Path(__file__).parent / "windowed"
_DUCKDB = (  # patterns of a text, and what DuckDB says instead
    (r"--.*\n", ""),
    (r"\[(RANGE|TUMBLE)[^]]*\]", ""),
    (r"\bWINDOW .*", ""),
    (r", window\(b\.at, '[^']*'\)", ""),
    (r"date_format\((\w+), 'yyyy-MM-dd'\)", r"strftime(\1, '%Y-%m-%d')"),
    (r"date_format\((\w+), 'HH:mm'\)", "strftime(\"\\1\", '%H:%M')"),
    (r"window_(start|end)", r"{\1}"),
)


@dataclass(frozen=True)
class WindowedText:
    """For DuckDB, {start} and {end} are the ends of a window whose rows are the streams."""

    query: Query
    sql: str
    duckdb: str


def declarations(workload: str, folder: Path | str = "", options: str = "", streams: Collection[str] = ()) -> str:
    """The streams of a workload, whose rows are in this folder; only these, if any are named."""
    text = re.sub(
        r"parquet '(\w+)'", rf"parquet '{folder}/\1'{options}", (FOLDER / workload / "streams.sql").read_text()
    )
    made = re.findall(r"CREATE STREAM (\w+)([^;]*;)", text)
    return "\n".join(f"CREATE STREAM {name}{rest}" for name, rest in made if not streams or name in streams)


def windowed_texts(workload: str, grid: str = "") -> dict[str, WindowedText]:
    """All queries of a workload by name; those that end with WINDOW … get another grid, if one is given."""
    streams = _streams(workload)
    found = {}
    for path in sorted((FOLDER / workload).glob("q*.sql")):
        text = re.sub(r"\bWINDOW .*", f"WINDOW {grid}", path.read_text()) if grid else path.read_text()
        query = build_query(path.stem, text, streams)
        assert query.is_windowed
        found[path.stem] = WindowedText(query, text, _for_duckdb(text, query))
    return found


def _streams(workload: str) -> dict[str, Stream]:
    parsed = parse_script(declarations(workload))
    return {each.stream.name: each.stream for each in parsed if isinstance(each, CreateStream)}


def _for_duckdb(text: str, query: Query) -> str:
    """Quotients and averages of decimals are doubles in DuckDB; Spark rounds them to the digits of the output's type.
    Where rows tie at a LIMIT, outputs decide."""
    for pattern, instead in _DUCKDB:
        text = re.sub(pattern, instead, text)
    outputs = ", ".join(output.name for output in query.outputs)
    text = text.replace("\nLIMIT", f", {outputs}\nLIMIT")
    names = [f"c{at}" for at in range(len(query.outputs))]
    rounded = ", ".join(f"CAST({name} AS {output.type})" for name, output in zip(names, query.outputs, strict=True))
    return f"SELECT {rounded} FROM ({text}) AS found ({', '.join(names)})"
