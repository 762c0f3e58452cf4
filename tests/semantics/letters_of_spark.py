"""The tables of letters (watersmeet/letters/tables.py), found out from Spark, letter by letter.

`python -m tests.semantics.letters_of_spark` writes them again; test_letters.py fails where Spark has other ones.
"""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).parents[2] / "watersmeet" / "letters" / "tables.py"
LETTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
_HEAD = '"""How Spark {} changes letters, in hexadecimal. Written by tests/semantics/letters_of_spark.py."""\n'
_ASKED = {
    "upper": "upper(n)",
    "lower": "lower(n)",
    "before": "lower(n || 'Σ') = lower(n) || 'ς'",  # n makes a word
    "between": "lower('a' || n || 'Σ') = 'a' || lower(n) || 'ς'",  # n ends no word
}


def tables_of(spark: SparkSession, folder: Path) -> str:
    """The text of the module."""
    pq.write_table(pa.table({"n": LETTERS}), folder / "letters.parquet")
    rows = spark.read.parquet(str(folder / "letters.parquet")).coalesce(1)
    told = rows.selectExpr(*(f"{text} AS {name}" for name, text in _ASKED.items())).toArrow().to_pydict()
    cased = {letter for letter, yes in zip(LETTERS, told["before"], strict=True) if yes}
    ignorable = {letter for letter, yes in zip(LETTERS, told["between"], strict=True) if yes} - cased
    text = _HEAD.format(spark.version)
    for name in ("upper", "lower"):
        changed = {letter: new for letter, new in zip(LETTERS, told[name], strict=True) if letter != new}
        text += _table(
            name.upper(),
            "first:last:step:what is added to each",
            _runs((ord(letter), ord(new) - ord(letter)) for letter, new in changed.items() if len(new) == 1),
        )
        text += _table(
            f"{name.upper()}_TO_SEVERAL",
            "letter:what it becomes",
            [
                f"{ord(letter):X}:{':'.join(f'{ord(each):X}' for each in new)}"
                for letter, new in changed.items()
                if len(new) > 1
            ],
        )
    for name, meaning, found in (
        ("CASED", "first:last:step of letters of which words are made", cased),
        ("IGNORABLE", "first:last:step of what does not end a word", ignorable),
    ):
        text += _table(
            name, meaning, [run.rpartition(":")[0] for run in _runs((ord(each), 0) for each in sorted(found))]
        )
    return text


def _table(name: str, meaning: str, items: list[str]) -> str:
    return f'\n# {meaning}\n{name} = """\n' + "\n".join(textwrap.wrap(" ".join(items), 118)) + '\n"""\n'


def _runs(pairs: Iterable[tuple[int, int]]) -> list[str]:
    """Codes in a row, or every second one, with the same number."""
    runs: list[tuple[int, int, int, int]] = []
    for code, added in pairs:
        first, last, step, same = runs[-1] if runs else (0, 0, 0, None)
        if same == added and code - last in ((1, 2) if first == last else (step,)):
            runs[-1] = (first, code, code - last, added)
        else:
            runs.append((code, code, 1, added))
    return [f"{first:X}:{last:X}:{step:X}:{added:X}" for first, last, step, added in runs]


def _write() -> None:
    from watersmeet.session import make_session  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(tables_of(make_session("local[1]"), Path(folder)))


if __name__ == "__main__":
    _write()
