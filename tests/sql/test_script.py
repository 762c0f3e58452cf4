"""Scripts: statements between semicolons, and where they go wrong."""

from __future__ import annotations

import pytest

from watersmeet.errors import SourcePlace, SqlError
from watersmeet.model import Column, Sink, Source, Stream
from watersmeet.pipeline import Pipeline
from watersmeet.sql import CreateQuery, CreateStream, DropQuery, build_query, parse_duration, parse_script

STREAM = "CREATE STREAM s (a INT, ts TIMESTAMP) TIMESTAMP BY ts FROM parquet 'p'"
TIMED = "(a INT, ts TIMESTAMP) TIMESTAMP BY ts"


def test_stream_with_everything() -> None:
    text = """-- sales; all of them
    create stream `Bids` (auction BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>, at STRUCT<x: INT, y: MAP<INT, INT>>,
      `event time` timestamp /* ; */) TIMESTAMP BY `Event Time` LATENESS INTERVAL '5' SECOND
      FROM CSV 'data/it''s;here' WITH (header = true, sep = ';', maxFilesPerTrigger = 10, a.b.c = word, n = -1.5);"""
    (found,) = parse_script(text)
    assert isinstance(found, CreateStream)
    assert found.place.text[found.place.start : found.place.end] == "`Bids`"
    assert found.stream == Stream(
        "Bids",
        (
            Column("auction", "bigint"),
            Column("price", "decimal(10,2)"),
            Column("tags", "array<string>"),
            Column("at", "struct<x:int,y:map<int,int>>"),
            Column("event time", "timestamp"),
        ),
        "event time",
        5_000_000,
        Source(
            "csv",
            "data/it's;here",
            (("header", "true"), ("sep", ";"), ("maxFilesPerTrigger", "10"), ("a.b.c", "word"), ("n", "-1.5")),
        ),
    )


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("", 0),
        ("LATENESS 5 SECONDS", 5_000_000),
        ("LATENESS INTERVAL '2 minutes'", 120_000_000),
        ("LATENESS 0.5 MILLISECONDS", 500),
        ("LATENESS 1 week", 604_800_000_000),
    ],
)
def test_lateness(written: str, microseconds: int) -> None:
    (found,) = parse_script(f"CREATE STREAM s {TIMED} {written} FROM json 'p'")
    assert isinstance(found, CreateStream)
    assert found.stream.lateness == microseconds


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("", None),
        ("IDLE AFTER 10 SECONDS", 10_000_000),
        ("LATENESS 5 SECONDS RETAIN UNBOUNDED idle after INTERVAL '1' MINUTE", 60_000_000),
    ],
)
def test_idle_after(written: str, microseconds: int | None) -> None:
    (found,) = parse_script(f"CREATE STREAM s {TIMED} {written} FROM csv 'p'")
    assert isinstance(found, CreateStream)
    assert found.stream.idle == microseconds


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("", 0),
        ("RETAIN 10 MINUTES", 600_000_000),
        ("LATENESS 5 SECONDS RETAIN INTERVAL '10' MINUTE", 600_000_000),
        ("retain unbounded", None),
    ],
)
def test_retain(written: str, microseconds: int | None) -> None:
    (found,) = parse_script(f"CREATE STREAM s {TIMED} {written} FROM json 'p'")
    assert isinstance(found, CreateStream)
    assert found.stream.retain == microseconds
    assert found.stream.lateness == (5_000_000 if "LATENESS" in written else 0)


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("", 86_400_000_000),
        ("AHEAD 10 MINUTES", 600_000_000),
        ("LATENESS 5 SECONDS AHEAD INTERVAL '10' MINUTE RETAIN 1 HOUR", 600_000_000),
        ("AHEAD 0 SECONDS", 0),
        ("ahead unbounded", None),
    ],
)
def test_ahead(written: str, microseconds: int | None) -> None:
    (found,) = parse_script(f"CREATE STREAM s {TIMED} {written} FROM json 'p'")
    assert isinstance(found, CreateStream)
    assert found.stream.ahead == microseconds
    assert found.stream.retain == (3_600_000_000 if "RETAIN" in written else 0)


def test_backfill() -> None:
    first, second, third = parse_script(
        "CREATE QUERY a BACKFILL AS SELECT 1; CREATE QUERY b backfill INTO json 'p' AS SELECT 1;"
        "CREATE QUERY backfill AS SELECT 1"
    )
    assert isinstance(first, CreateQuery)
    assert isinstance(second, CreateQuery)
    assert isinstance(third, CreateQuery)
    assert (first.backfill, second.backfill, third.backfill) == (True, True, False)
    assert second.sink == Sink("json", "p")
    assert third.name == "backfill"


def test_duration_as_text() -> None:
    assert parse_duration("5 seconds") == parse_duration("INTERVAL '5' SECOND") == 5_000_000
    with pytest.raises(SqlError, match="not a duration"):
        parse_duration("")


def test_queries_and_drops() -> None:
    text = """;; CREATE QUERY q AS SELECT a.x -- why
    FROM s AS a WINDOW 1 DAY ; CREATE QUERY r INTO json 'out' WITH (compression = gzip) AS SELECT ';' AS c FROM s;
    CREATE QUERY t INTO console AS SELECT 1; DROP QUERY `q`;"""
    first, second, third, drop = parse_script(text, "f.sql")
    assert isinstance(first, CreateQuery)
    assert isinstance(second, CreateQuery)
    assert isinstance(third, CreateQuery)
    assert isinstance(drop, DropQuery)
    assert first.sink == Sink()
    assert first.select.startswith("SELECT a.x")
    assert first.select.endswith("1 DAY")
    assert text[first.offset :].startswith(first.select)
    assert second.sink == Sink("json", "out", (("compression", "gzip"),))
    assert second.select == "SELECT ';' AS c FROM s"
    assert third.sink == Sink("console")
    assert drop.name == "q"
    assert str(drop.place).startswith("f.sql, line 3")


def test_empty_script() -> None:
    assert parse_script("") == parse_script(" ; -- nothing\n ;") == ()


def test_errors_of_a_query_point_into_the_script() -> None:
    text = STREAM + ";\nCREATE QUERY q AS\n  SELECT x.a FROM s [RANGE 1 DAY] b;"
    stream, query = parse_script(text, "f.sql")
    assert isinstance(stream, CreateStream)
    assert isinstance(query, CreateQuery)
    origin = SourcePlace(text, query.offset, query.offset + len(query.select), "f.sql")
    with pytest.raises(SqlError) as caught:
        build_query(query.name, query.select, {"s": stream.stream}, query.sink, origin=origin)
    assert str(caught.value).startswith("f.sql, line 3, column 10: unknown alias x")


@pytest.mark.parametrize(
    ("text", "line", "column", "fragment"),
    [
        ("INSERT INTO s VALUES (1)", 1, 1, "INSERT INTO are not supported"),
        ("SELECT 1", 1, 1, "needs a name"),
        ("SHOW TABLES", 1, 1, "SHOW"),
        ("DROP STREAM s", 1, 1, "DROP STREAM is not supported"),
        ("DROP QUERY", 1, 11, "expected the name of a query, found the end"),
        ("DROP QUERY a b", 1, 14, "unexpected b"),
        ("CREATE TABLE t (a INT)", 1, 1, "CREATE TABLE are not supported"),
        ("CREATE STREAM a/b " + TIMED, 1, 15, "'a/b' cannot be the name of a stream"),
        ("CREATE QUERY `a.b` AS SELECT 1", 1, 14, "'a.b' cannot be the name of a query"),
        ("CREATE QUERY a.b AS SELECT 1", 1, 14, "'a.b' cannot be the name of a query"),
        ("CREATE STREAM s (a INT,\n b FOO) TIMESTAMP BY a", 2, 4, "unknown type FOO"),
        ("CREATE STREAM s (a INT, b FOO) TIMESTAMP BY a", 1, 27, "Types: BOOLEAN"),
        ("CREATE STREAM s (a DECIMAL(99)) TIMESTAMP BY a", 1, 20, "not a decimal type"),
        ("CREATE STREAM s (a) TIMESTAMP BY a", 1, 18, "column a has no type"),
        ("CREATE STREAM s (a INT, A INT) TIMESTAMP BY a", 1, 25, "two columns named A"),
        ("CREATE STREAM s (a INT) TIMESTAMP BY b", 1, 38, "no column b"),
        ("CREATE STREAM s (a STRING) TIMESTAMP BY a FROM csv 'p'", 1, 41, "the event time a is STRING"),
        ("CREATE STREAM s (a INT) FROM csv 'p'", 1, 25, "expected TIMESTAMP, found FROM"),
        (f"CREATE STREAM s {TIMED}", 1, 54, "expected FROM, found the end"),
        (f"CREATE STREAM s {TIMED} FROM csv", 1, 63, "expected a path in quotes"),
        (f"CREATE STREAM s {TIMED} FROM csv 'p' WITH (a 1)", 1, 76, "expected ="),
        (f"CREATE STREAM s {TIMED} FROM csv 'p' WITH (a=1, a=2)", 1, 79, "option a is given twice"),
        (f"CREATE STREAM s {TIMED} LATENESS 5 FROM csv 'p'", 1, 64, "not a duration"),
        (f"CREATE STREAM s {TIMED} LATENESS 1 MONTH FROM csv 'p'", 1, 64, "no fixed length"),
        (f"CREATE STREAM s {TIMED} RETAIN FROM csv 'p'", 1, 55, "not a duration"),
        (f"CREATE STREAM s {TIMED} RETAIN 1 YEAR FROM csv 'p'", 1, 62, "no fixed length"),
        (f"CREATE STREAM s {TIMED} RETAIN UNBOUNDED 1 DAY FROM csv 'p'", 1, 62, "not a duration"),
        (
            f"CREATE STREAM s {TIMED} RETAIN 1 DAY LATENESS 1 DAY FROM csv 'p'",
            1,
            68,
            "LATENESS must precede RETAIN",
        ),
        (f"CREATE STREAM s {TIMED} AHEAD 1 DAY LATENESS 1 DAY FROM csv 'p'", 1, 67, "LATENESS must precede AHEAD"),
        (f"CREATE STREAM s {TIMED} RETAIN 1 DAY AHEAD 1 DAY FROM csv 'p'", 1, 68, "AHEAD must precede RETAIN"),
        (f"CREATE STREAM s {TIMED} IDLE AFTER 0 SECONDS FROM csv 'p'", 1, 55, "IDLE AFTER needs a length above 0"),
        (f"CREATE STREAM s {TIMED} IDLE AFTER UNBOUNDED FROM csv 'p'", 1, 55, "IDLE AFTER UNBOUNDED means nothing"),
        (f"CREATE STREAM s {TIMED} IDLE 10 SECONDS FROM csv 'p'", 1, 60, "expected AFTER, found 10"),
        (f"CREATE STREAM s {TIMED} IDLE AFTER 1 DAY RETAIN 1 DAY FROM csv 'p'", 1, 72, "RETAIN must precede IDLE"),
        ("CREATE QUERY q INTO json 'p' BACKFILL AS SELECT 1", 1, 30, "BACKFILL must precede INTO"),
        ("CREATE QUERY q BACKFILL BACKFILL AS SELECT 1", 1, 25, "BACKFILL is written twice"),
        ("CREATE QUERY q INTO avro AS SELECT 1", 1, 21, "Formats: parquet, json, csv, console"),
        ("CREATE QUERY q SELECT 1", 1, 16, "expected AS"),
        ("CREATE QUERY q AS", 1, 14, "has no SELECT"),
        ("DROP QUERY q;\nDROP QUERY 'a", 2, 12, "never closed"),
        ("DROP QUERY q; /* open", 1, 15, "never closed"),
    ],
)
def test_rejected(text: str, line: int, column: int, fragment: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_script(text)
    assert fragment in str(caught.value)
    place = caught.value.place
    assert place is not None
    assert (place.line, place.column) == (line, column)


@pytest.mark.parametrize(
    ("select", "shown"),
    [
        ('c."User ID" FROM c [RANGE 1 HOUR]', '"User ID" is a string, not a name'),
        ('c."User ID" FROM c [RANGE 1 HOUR]', "write names in backticks: c.`User ID`"),
        ('sum(c."User ID") AS s FROM c [TUMBLE 1 HOUR]', "write names in backticks: c.`User ID`"),
        ('"User ID" FROM c [RANGE 1 HOUR]', "if it is a column, write names in backticks: `User ID`"),
        ('"User ID" FROM c [TUMBLE 1 HOUR]', "if it is a column, write names in backticks: `User ID`"),
        ("c.UserID FROM c [RANGE 1 HOUR]", "did you mean `User ID`?"),
        ("c.UserID FROM c [TUMBLE 1 HOUR]", "did you mean `User ID`?"),
    ],
)
def test_a_name_in_double_quotes_is_told_of_backticks(select: str, shown: str) -> None:
    stream = "CREATE STREAM c (at TIMESTAMP, `User ID` BIGINT) TIMESTAMP BY at FROM parquet 'c';"
    with pytest.raises(SqlError) as caught:
        Pipeline.read(f"{stream} CREATE QUERY q AS SELECT {select};")
    assert shown in str(caught.value)


def test_a_column_in_double_quotes_is_told_of_backticks() -> None:
    with pytest.raises(SqlError, match="write names in backticks: `User ID`"):
        Pipeline.read("""CREATE STREAM c (at TIMESTAMP, "User ID" BIGINT) TIMESTAMP BY at FROM parquet 'c';""")
