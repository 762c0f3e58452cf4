"""The columns of a stream of messages: pseudo-columns that the broker knows, and fields of values, by name or path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.errors import ModelError
from watersmeet.model import CORRUPT_COLUMN, Column, Stream

PATH = "path."  # options of this prefix: where the value of a column is in a JSON or Avro message
PSEUDO = {
    "_key": ("string", "binary"),
    "_headers": ("array<struct<key:string,value:binary>>", "map<string,string>"),
    "_topic": ("string",),
    "_partition": ("int", "bigint"),
    "_offset": ("bigint",),
    "_timestamp": ("timestamp", "timestamp_ntz", "bigint"),
}
# Where a message was, in rejected/ too
PLACE = (("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()))


@dataclass(frozen=True)
class Fields:
    """The columns that are read from the value of a message, each with its path."""

    columns: tuple[Column, ...]
    paths: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, stream: Stream) -> Fields:
        assert stream.source is not None
        columns = tuple(column for column in stream.columns if column.name.lower() not in PSEUDO)
        given = {name[len(PATH) :].lower(): value for name, value in stream.source.options if name.startswith(PATH)}
        paths = tuple(_path(given[c.name.lower()]) if c.name.lower() in given else (c.name,) for c in columns)
        return cls(columns, paths)

    def nested(self) -> dict[str, Any]:
        """The paths as a tree: names, and at the ends the declared columns."""
        tree: dict[str, Any] = {}
        for column, path in zip(self.columns, self.paths, strict=True):
            at = tree
            for name in path[:-1]:
                at = at.setdefault(name, {})
            at[path[-1]] = column
        return tree


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.removeprefix("$").removeprefix(".").split("."))


def check_columns(stream: Stream, value_format: str) -> None:
    """Reject columns that no message can have."""
    assert stream.source is not None
    whose = f"stream {stream.name}"
    for column in stream.columns:
        name = column.name.lower()
        if name in PSEUDO and column.type not in PSEUDO[name]:
            allowed = " or ".join(kind.upper() for kind in PSEUDO[name])
            raise ModelError(f"{whose}: {column.name} is {column.type.upper()}; a message has it as {allowed}")
        if name.startswith("_") and name not in PSEUDO:
            listed = ", ".join(PSEUDO)
            raise ModelError(f"{whose}: a message has no {column.name}", detail=f"Pseudo-columns: {listed}.")
    fields = Fields.of(stream)
    known = {column.name.lower() for column in fields.columns}
    for name, value in stream.source.options:
        if name.startswith(PATH):
            if value_format not in ("json", "avro"):
                raise ModelError(f"{whose}: the option {name} is for format = 'json' or 'avro'")
            if name[len(PATH) :].lower() not in known:
                raise ModelError(f"{whose}: the option {name} names no column of the stream")
            if "[" in value or not all(_path(value)):
                hint = "write names with dots between them, such as payload.price; declare an ARRAY for a list"
                raise ModelError(f"{whose}: the option {name} cannot be {value!r}", hint=hint)
    _check_apart(whose, fields)
    if value_format == "raw" and (len(fields.columns) > 1 or any(c.type not in _RAW for c in fields.columns)):
        raise ModelError(
            f"{whose}: format = 'raw' gives the value of a message as one column",
            hint="declare one STRING or BINARY column beside pseudo-columns",
        )


_RAW = ("string", "binary")


def _check_apart(whose: str, fields: Fields) -> None:
    for column, path in zip(fields.columns, fields.paths, strict=True):
        for other, longer in zip(fields.columns, fields.paths, strict=True):
            if column is not other and longer[: len(path)] == path:
                raise ModelError(f"{whose}: {other.name} is inside of what {column.name} is read from")


def assembled(
    stream: Stream, messages: Sequence[Any], values: dict[str, pa.Array], corrupt: pa.Array
) -> pa.RecordBatch:
    """A batch of the declared columns, with what was not a message of the stream, and where each message was."""
    arrays: dict[str, pa.Array] = {}
    for column in stream.columns:
        name = column.name.lower()
        arrays[column.name] = _pseudo(column, messages) if name in PSEUDO else values[column.name]
    for name, kind in PLACE:
        if name not in arrays:
            arrays[name] = _pseudo(Column(name, PSEUDO[name][0]), messages).cast(kind)
    arrays[CORRUPT_COLUMN] = corrupt
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _pseudo(column: Column, messages: Sequence[Any]) -> pa.Array:
    name, kind = column.name.lower(), column.arrow
    if name == "_key":
        keys = pa.array([message.key() for message in messages], pa.binary())
        return keys if kind == pa.binary() else keys.view(pa.string())  # what is not UTF-8 is set aside later
    if name == "_headers":
        return pa.array([_headers(message, kind) for message in messages], kind)
    if name in ("_topic", "_partition", "_offset"):
        return pa.array([getattr(message, name[1:])() for message in messages], kind)
    times = pa.array([_time(message) for message in messages], pa.int64())
    return times if kind == pa.int64() else times.view(pa.timestamp("us"))


def _time(message: Any) -> int | None:
    """Microseconds; None where the broker has none."""
    kind, millis = message.timestamp()
    return millis * 1000 if kind else None


def _headers(message: Any, kind: pa.DataType) -> list[Any] | None:
    found = message.headers()
    if found is None:
        return None
    if pa.types.is_map(kind):
        # A map has each name once; the last one counts.
        texts = {name: value.decode("utf-8", "replace") if value is not None else None for name, value in found}
        return list(texts.items())
    return [{"key": name, "value": value} for name, value in found]
