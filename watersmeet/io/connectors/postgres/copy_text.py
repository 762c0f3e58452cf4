"""Results as the CSV that Postgres' COPY reads, made of whole columns.

NULL is an empty field, an empty string is "". Timestamps are sent without a zone, in a session whose time zone is UTC:
Arrow takes ten times longer to write them with one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from watersmeet.io.json_lines import json_texts
from watersmeet.private_duckdb import connect

NUL, SIGN_FOR_NUL = "\0", "\u2400"  # Postgres stores every character but NUL
# From the year 1 on, and before the year 10000.
_USUAL = {
    "date32[day]": (-719_162, 2_932_897),
    "timestamp[us]": (-62_135_596_800_000_000, 253_402_300_800_000_000),
}
_OPTIONS = pyarrow.csv.WriteOptions(include_header=False, batch_size=1 << 16)
_ESCAPE = re.compile(r"\\(?:u0000|.)")


class CopyText:
    """Turns tables into text, and counts the strings in which it had to replace a NUL."""

    def __init__(self) -> None:
        self.replaced = 0
        self._connection = connect()
        self._written: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
            (pa.types.is_timestamp, self._moments),
            (pa.types.is_date, self._times),
            (pa.types.is_decimal, lambda column: column.cast(pa.string())),
            (pa.types.is_string, self._without_nul),
            (pa.types.is_binary, self._bytes),
            (pa.types.is_nested, self._json),
        )

    def of(self, rows: pa.RecordBatch) -> pa.Buffer:
        columns = [self._column(column) for column in rows.columns]
        names = [str(at) for at in range(len(columns))]
        text = pa.BufferOutputStream()
        pyarrow.csv.write_csv(pa.Table.from_arrays(columns, names=names), text, _OPTIONS)
        return text.getvalue()

    def close(self) -> None:
        self._connection.close()

    def _column(self, column: pa.Array) -> pa.Array:
        write = next((write for has_type, write in self._written if has_type(column.type)), None)
        return write(column) if write else column  # Arrow writes booleans and numbers as Postgres reads them

    def _moments(self, column: pa.Array) -> pa.Array:
        return self._times(column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.timestamp("us")))

    def _bytes(self, column: pa.Array) -> pa.Array:
        return self._computed("'\\x' || hex(value)", column)

    def _times(self, column: pa.Array) -> pa.Array:
        """Years before the first one as Postgres writes them, which no other text of a time does; and those of more
        than four digits, most of which Arrow does not write."""
        found = pc.min_max(column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())).as_py()
        first, end = _USUAL[str(column.type)]
        if found["min"] is None or (found["min"] >= first and found["max"] < end):
            return column
        rest = "-%m-%d" if pa.types.is_date(column.type) else "-%m-%d %H:%M:%S.%f"
        before = f"printf('%04d', 1 - year(value)) || strftime(value, '{rest}') || ' BC'"
        return self._computed(f"CASE WHEN year(value) < 1 THEN {before} ELSE value::VARCHAR END", column)

    def _without_nul(self, column: pa.Array) -> pa.Array:
        found = pc.sum(pc.match_substring(column, NUL)).as_py()
        if not found:
            return column
        self.replaced += found
        return pc.replace_substring(column, NUL, SIGN_FOR_NUL)

    def _json(self, column: pa.Array) -> pa.Array:
        texts = json_texts(self._connection, column)
        found = pc.match_substring(texts, "\\u0000")
        if not pc.any(found).as_py():
            return texts
        changed = [text and _ESCAPE.sub(_escaped, text) for text in texts.to_pylist()]
        self.replaced += sum(old != new for old, new in zip(texts.to_pylist(), changed, strict=True))
        return pa.array(changed, pa.string())

    def _computed(self, expression: str, column: pa.Array) -> pa.Array:
        self._connection.register("rows_to_copy", pa.table({"value": column}))
        try:
            found = self._connection.sql(f"SELECT {expression} FROM rows_to_copy").to_arrow_table()
        finally:
            self._connection.unregister("rows_to_copy")
        return found.column(0).combine_chunks().cast(pa.string())


def _escaped(found: re.Match[str]) -> str:
    return SIGN_FOR_NUL if found[0] == "\\u0000" else found[0]
