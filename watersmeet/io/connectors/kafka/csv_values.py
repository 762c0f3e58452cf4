"""CSV messages, a line each, as columns in the order of their declaration."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv

from watersmeet.io.connectors.kafka.columns import Fields
from watersmeet.io.connectors.kafka.json_values import Decoded, instants


class CsvValues:
    def __init__(self, fields: Fields, separator: str) -> None:
        self._fields = fields
        self._parsing = pa.csv.ParseOptions(delimiter=separator)
        kinds = {c.name: pa.string() if c.type == "timestamp" else c.arrow for c in fields.columns}
        self._converting = pa.csv.ConvertOptions(
            column_types=kinds, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        lines = [value if value is not None else b"" for value in values]
        found, problems = self._decode(lines)
        return found, [why if value is not None else None for why, value in zip(problems, values, strict=True)]

    def _decode(self, lines: list[bytes]) -> Decoded:
        parsed = self._parsed(lines)
        if isinstance(parsed, dict):
            return parsed, [None] * len(lines)
        if len(lines) == 1:
            nothing = {column.name: pa.nulls(1, column.arrow) for column in self._fields.columns}
            return nothing, [parsed]
        middle = len(lines) // 2
        (left, first), (right, second) = self._decode(lines[:middle]), self._decode(lines[middle:])
        return {name: pa.concat_arrays([left[name], right[name]]) for name in left}, first + second

    def _parsed(self, lines: list[bytes]) -> dict[str, pa.Array] | str:
        """The columns, or why not all lines are lines of the stream."""
        # Neither a line end inside of a message nor an empty one may shift the rows of the others.
        if any(b"\n" in line or b"\r" in line or not line for line in lines):
            return "it is not one line"
        names = [column.name for column in self._fields.columns]
        content = b"\n".join(lines)
        try:
            reading = pa.csv.ReadOptions(use_threads=False, block_size=len(content) + 1, column_names=names)
            table = pa.csv.read_csv(pa.BufferReader(content), reading, self._parsing, self._converting)
            if table.num_rows != len(lines):
                return "it is not one line"
            arrays = {name: table.column(name).combine_chunks() for name in names}
            times = [column.name for column in self._fields.columns if column.type == "timestamp"]
            return arrays | {name: instants(arrays[name]) for name in times}
        except pa.ArrowInvalid as problem:
            return str(problem).splitlines()[0][:200]
