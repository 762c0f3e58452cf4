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
    """A column of a stream.

    Args:
        name: its name; queries ignore its case.
        type: a type of Spark SQL, such as BIGINT or DECIMAL(10, 2).

    Raises:
        ModelError: there is no such type, or it is not supported.

    Example:
        >>> watersmeet.Column("price", "BIGINT").type
        'bigint'
    """

    name: str
    type: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", canonical_type(self.type))

    @property
    def arrow(self) -> pa.DataType:
        """The type as an Arrow type.

        Example:
            >>> watersmeet.Column("price", "BIGINT").arrow
            DataType(int64)
        """
        return arrow_type(self.type)


@dataclass(frozen=True)
class Source:
    """Where a declared stream is read from.

    Args:
        format: parquet, kafka, delta, or any other format of Spark's streaming reader.
        path: a folder, or what the format is named by, such as a topic.
        options: pairs of names and values; docs/options.md lists them.

    Example:
        >>> watersmeet.Source("parquet", "bids", (("maxFilesPerTrigger", "10"),)).path
        'bids'
    """

    format: str
    path: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Stream:
    """A declared stream, as CREATE STREAM makes it. Durations are microseconds.

    Args:
        name: its name; `Engine.stream` gives it another one.
        columns: its columns.
        time: the column with the event time.
        lateness: how far a row may be behind the newest row of earlier ticks.
        source: where it is read from; None: a streaming DataFrame was handed over.
        ahead: how far a row may be ahead of both the rows before it and the clock; None: no limit.
        retain: how long rows are stored even if no query needs them; None: for ever.
        idle: how long it may be silent before it stops holding back windows; None: for ever.

    Raises:
        ModelError: the name, a column, the event time or a duration is invalid.

    Example:
        >>> columns = (watersmeet.Column("at", "TIMESTAMP"), watersmeet.Column("auction", "BIGINT"))
        >>> clicks = watersmeet.Stream("clicks", columns, "at", source=watersmeet.Source("json", "clicks"))
        >>> engine.stream("clicks", clicks).column("AUCTION").type
        'bigint'
    """

    name: str
    columns: tuple[Column, ...]
    time: str
    lateness: int = 0
    source: Source | None = None
    ahead: int | None = DAY
    retain: int | None = 0
    idle: int | None = None

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
        for what, length in (("lateness", self.lateness), ("ahead", self.ahead), ("retain", self.retain)):
            if length is not None and length < 0:
                raise ModelError(f"stream {self.name}: {what} must not be negative")
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
        """The column of a name, ignoring case.

        Args:
            name: the name.

        Returns:
            The column.

        Raises:
            ModelError: there is no such column; the message has the names that exist.

        Example:
            >>> engine.streams[0].column("Price")
            Column(name='price', type='bigint')
        """
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise ModelError(
            f"stream {self.name} has no column {name}",
            detail=f"Its columns: {', '.join(column.name for column in self.columns)}.",
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema.

        Example:
            >>> engine.streams[0].schema.names
            ['at', 'auction', 'price']
        """
        return pa.schema([(column.name, column.arrow) for column in self.columns])
