"""A stream: named, typed columns, one of which is the event time."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.errors import ModelError
from watersmeet.model.spark_call import HIDDEN
from watersmeet.model.types import arrow_type, canonical_type, is_integer

DAY = 86_400_000_000  # microseconds
CORRUPT_COLUMN = "_corrupt_record"  # what could not be parsed, beside the columns of
_PARSED = ("csv", "json", "xml", "kafka")  # these formats
NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def check_name(kind: str, name: str) -> None:
    """Names become folders and SQL identifiers, so they hold letters, digits and underscores only."""
    if not NAME_PATTERN.fullmatch(name):
        raise ModelError(
            f"{name!r} cannot be the name of a {kind}",
            detail="A name is a folder and an SQL identifier at once.",
            hint="use up to 128 letters, digits and underscores, and do not start with a digit",
        )


@dataclass(frozen=True)
class Column:
    name: str
    type: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", canonical_type(self.type))

    @property
    def arrow(self) -> pa.DataType:
        return arrow_type(self.type)


@dataclass(frozen=True)
class Source:
    """Where Spark reads a declared stream from: a format, a path and the reader's options."""

    format: str
    path: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Stream:
    name: str
    columns: tuple[Column, ...]
    time: str
    lateness: int = 0  # microseconds
    source: Source | None = None  # None: a streaming DataFrame was handed over
    ahead: int | None = DAY  # microseconds that a row may be ahead of the rows before it and of the clock; None: any
    retain: int | None = 0  # microseconds that rows are kept whether a query needs them or not; None is UNBOUNDED
    idle: int | None = None  # microseconds of silence after which it does not hold back windows; None: it always does

    def __post_init__(self) -> None:
        check_name("stream", self.name)
        if not self.columns:
            raise ModelError(f"stream {self.name} has no columns")
        folded = [column.name.lower() for column in self.columns]
        for name in folded:
            if folded.count(name) > 1:
                raise ModelError(f"stream {self.name} has two columns named {name} (names ignore case)")
            if name.startswith(HIDDEN):
                raise ModelError(f"stream {self.name}: the name of a column must not begin with {HIDDEN!r}")
            if name == CORRUPT_COLUMN and self.source is not None and self.source.format in _PARSED:
                raise ModelError(
                    f"stream {self.name}: {name} cannot be a column of {self.source.format} input",
                    detail="Rows that cannot be parsed are set aside with their text in a column of this name.",
                    hint="give the column another name, or leave it out",
                )
        if self.lateness < 0:
            raise ModelError(f"stream {self.name}: lateness must not be negative")
        if self.ahead is not None and self.ahead < 0:
            raise ModelError(f"stream {self.name}: ahead must not be negative")
        if self.retain is not None and self.retain < 0:
            raise ModelError(f"stream {self.name}: retain must not be negative")
        if self.idle is not None and self.idle <= 0:
            raise ModelError(f"stream {self.name}: the time after which it is idle must be above 0")
        time = self.column(self.time)
        if time.type not in ("timestamp", "timestamp_ntz", "date") and not is_integer(time.type):
            raise ModelError(
                f"stream {self.name}: the event time {self.time} is {time.type.upper()}",
                hint="TIMESTAMP BY takes a TIMESTAMP, TIMESTAMP_NTZ, DATE or integer (microseconds) column",
            )
        object.__setattr__(self, "time", time.name)

    def column(self, name: str) -> Column:
        """The column of that name, ignoring case; raises with the names that exist."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise ModelError(
            f"stream {self.name} has no column {name}",
            detail=f"Its columns: {', '.join(column.name for column in self.columns)}.",
        )

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.arrow) for column in self.columns])
