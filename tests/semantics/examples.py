"""The entries of the tables of functions, each once in the order of declaration, and examples of what has no entry."""

from __future__ import annotations

from watersmeet.sql.functions import TABLE
from watersmeet.sql.functions.aggregates import AGGREGATE_TABLE
from watersmeet.sql.functions.by_spark import BY_SPARK

ENTRIES = tuple(dict.fromkeys(TABLE.values()))
SPARK_ENTRIES = tuple(dict.fromkeys(entry for listed in BY_SPARK.values() for entry in listed))
AGGREGATE_ENTRIES = tuple(dict.fromkeys(AGGREGATE_TABLE.values()))
# CAST has a type in place of its second argument, so it is not called by name: watersmeet/sql/typing.py.
CASTS = (
    *(f"CAST({{number}} AS {kind})" for kind in ("TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN")),
    "CAST({integer} AS DOUBLE)",
    "CAST({float} AS DOUBLE)",
    "CAST({decimal} AS DOUBLE)",
    "CAST({long_decimal} AS DOUBLE)",
    "CAST({int} AS FLOAT)",
    "CAST({integer} AS DECIMAL(12,2))",
    "CAST({integer} AS DECIMAL(4,1))",
    "CAST({decimal} AS DECIMAL(4,1))",
    "CAST({decimal} AS DECIMAL(30,4))",
    "CAST({string} AS TINYINT)",
    "CAST({string} AS INT)",
    "CAST({string} AS BIGINT)",
    "CAST({string} AS DOUBLE)",
    "CAST({string} AS BOOLEAN)",
    "CAST({string} AS DATE)",
    "CAST({plain} AS STRING)",
    "CAST({boolean} AS INT)",
    "CAST({boolean} AS DOUBLE)",
    "CAST({timestamp} AS BIGINT)",
    "CAST({timestamp} AS INT)",
    "CAST({timestamp} AS DOUBLE)",
    "CAST({timestamp} AS DATE)",
    "CAST({date} AS TIMESTAMP)",
    "CAST({timestamp} AS TIMESTAMP_NTZ)",
    "CAST({ntz} AS TIMESTAMP)",
    "CAST({int} / 2 AS INT)",
    "CAST('1.5' AS DOUBLE)",
    "CAST(1.9 AS INT)",
    "CAST('2024-01-01 02:00:00+02:00' AS TIMESTAMP)",
    "TIMESTAMP '2024-01-01 02:00:00Z'",
    "try_cast({string} AS INT)",
    "try_cast({bigint} AS INT)",
    "try_cast({double} AS BIGINT)",
    "try_cast({string} AS DATE)",
    "{string}::INT",
)
