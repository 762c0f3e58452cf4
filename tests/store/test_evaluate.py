"""No value stops an evaluation, and nothing that a text says reaches a file or a setting."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import duckdb
import pyarrow as pa
import pytest

from watersmeet.private_duckdb import connect
from watersmeet.store import evaluate as module
from watersmeet.store.evaluate import evaluate

BIG = 2147483647
ROWS = pa.table({"i": pa.array([1, BIG, 3, None], pa.int32()), "n": ["7", "x", "50", None]})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("(i + i) * (i + i)", [4, None, 36, None]),
        ("i + 1 > 0", [True, None, True, None]),
        ("CAST(n AS INT) BETWEEN 1 AND 50", [True, None, True, None]),
        ("CAST(n AS INT) IN (1, 7)", [True, None, False, None]),
        ("CASE WHEN i < 5 THEN i + i ELSE 0 END", [2, 0, 6, 0]),
        ("CASE WHEN i > 5 THEN TRUE ELSE i > 5 OR i + 1 > 3 END", [False, True, True, None]),
    ],
)
def test_a_value_that_cannot_be_computed_concerns_its_row_and_expression_alone(text: str, values: list[object]) -> None:
    done = evaluate(ROWS, [text, "i"])
    assert done.values[0].to_pylist() == values
    assert done.failures[1] == 0
    assert done.values[1].to_pylist() == [1, BIG, 3, None]


def test_what_raises_in_spite_of_try_is_found_row_by_row() -> None:
    """Of `error` DuckDB allows no TRY."""
    done = evaluate(ROWS, ["CASE WHEN n = 'x' THEN error('no') ELSE n END", "i"])
    assert done.values[0].to_pylist() == ["7", None, "50", None]
    assert done.failures == [1, 0]


def test_a_database_that_was_invalidated_is_replaced() -> None:
    before = module._connection(False, 0)
    broken = mock.Mock(wraps=before)
    broken.from_arrow.side_effect = duckdb.FatalException("database has been invalidated")
    answers = iter([broken])
    module._connection.cache_clear()
    with mock.patch.object(module, "connect", lambda settings=None: next(answers, None) or connect(settings)):
        assert evaluate(ROWS, ["i"]).values[0].to_pylist() == [1, BIG, 3, None]
        assert evaluate(ROWS, ["i + 0"]).values[0].to_pylist() == [1, BIG, 3, None]
    assert module._connection(False, 0) is not broken
    module._connection.cache_clear()


def test_no_text_reads_a_file_or_changes_a_setting(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("the secret\n")
    with connect() as connection:
        for text in (
            f"SELECT * FROM read_csv('{secret}')",
            f"SELECT * FROM '{secret}'",
            f"SELECT json_serialize_plan('select * from read_csv(''{secret}'')')",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            "SET enable_external_access = true",
            "SET TimeZone = 'Europe/Berlin'",
            "SET threads = 8",
        ):
            try:
                told = str(connection.execute(text).fetchall())
            except duckdb.Error as error:
                told = str(error)
            assert "the secret" not in told
        with pytest.raises(duckdb.Error):
            connection.execute("SET TimeZone = 'Europe/Berlin'")
    assert not (tmp_path / "out.csv").exists()
