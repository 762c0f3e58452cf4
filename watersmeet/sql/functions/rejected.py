"""Functions that people know from Spark and that are rejected, with the reason and what to use instead."""

from __future__ import annotations

import difflib

from watersmeet.sql.functions.aggregates import AGGREGATES
from watersmeet.sql.functions.by_spark import BY_SPARK
from watersmeet.sql.functions.table import TABLE

GENERATORS = frozenset(
    ["explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "stack"]
)
CHANGING = frozenset(
    [
        "current_date",
        "current_timestamp",
        "current_time",
        "current_user",
        "current_database",
        "current_catalog",
        "current_schema",
        "now",
        "localtimestamp",
        "curdate",
        "user",
        "session_user",
        "rand",
        "random",
        "randn",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "sysdate",
        "version",
        "current_timezone",
    ]
)
ZONES = frozenset(["convert_timezone", "make_timestamp_ltz"])
_INSTEAD = {
    "from_json": "declare the column as a STRUCT",
    "filter": "expand the array where results are read",
    "transform": "expand the array where results are read",
    "exists": "use array_contains(…, …)",
}
ALL = AGGREGATES | GENERATORS | CHANGING | ZONES | frozenset(_INSTEAD)


def reason(name: str) -> tuple[str, str]:
    """The problem and a hint for a function that is not in the table."""
    lower = name.lower()
    hint = _INSTEAD.get(lower, "")
    if not hint:
        close = difflib.get_close_matches(
            lower, [known for known in (*TABLE, *BY_SPARK) if known[0].isalpha() and " " not in known], n=1
        )
        hint = f"did you mean {close[0]}?" if close else "docs/semantics.md lists the functions that are"
    return f"function {name} is not supported", hint
