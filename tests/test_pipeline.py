"""A pipeline is a value: every change gives another one, and what is wrong is found without an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.errors import ModelError, SqlError
from watersmeet.model import Sink
from watersmeet.options import Options
from watersmeet.pipeline import Pipeline, check_script

STREAMS = """
CREATE STREAM r (a BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'in/r';
CREATE STREAM s (a BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet '/in/s';
"""
SELECT = "SELECT r.a FROM r, s WHERE r.a = s.a WINDOW 1 SECOND"
SCRIPT = f"{STREAMS} CREATE QUERY q INTO csv 'out' AS {SELECT}; CREATE QUERY p AS {SELECT}; DROP QUERY p;"


def test_a_script_becomes_a_pipeline_with_paths_relative_to_its_file(tmp_path: Path) -> None:
    pipeline = Pipeline.read(SCRIPT, tmp_path / "pipeline.sql")
    assert list(pipeline.streams) == ["r", "s"]
    assert list(pipeline.queries) == ["q"]
    sources = [stream.source.path for stream in pipeline.streams.values() if stream.source]
    assert sources == [str(tmp_path / "in/r"), "/in/s"]
    assert pipeline.queries["q"].sink == Sink("csv", str(tmp_path / "out"))
    assert pipeline.folder_of(pipeline.queries["q"]) == tmp_path / "out"


def test_a_change_leaves_the_pipeline_before_it_as_it_was() -> None:
    before = Pipeline.read(STREAMS)
    after = before.with_query(before.query("q", SELECT))
    assert (list(before.queries), list(after.queries)) == ([], ["q"])
    assert list(after.without_query("q").queries) == []
    with_predicate = after.with_predicate("near", lambda a, b: a == b, by_row=True)
    assert (list(after.predicates), list(with_predicate.predicates)) == ([], ["near"])


def test_what_does_not_fit_together_is_rejected() -> None:
    pipeline = Pipeline.read(SCRIPT, options=Options(max_queries=2))
    query = pipeline.query("other", SELECT)
    with pytest.raises(ModelError, match=r"a stream named r exists already(.|\n)*rename one of the two"):
        pipeline.with_stream(pipeline.streams["r"])
    hint = "Hint: rename one of the two, or drop it first: watersmeet drop q,"
    with pytest.raises(ModelError, match=rf"a query named q exists already\n(.*\n)*{hint}"):
        pipeline.with_query(pipeline.query("q", SELECT))
    with pytest.raises(ModelError, match="no query named nobody"):
        pipeline.without_query("nobody")
    with pytest.raises(ModelError, match="into the folder of query q"):
        pipeline.with_query(pipeline.query("other", SELECT, Sink("csv", "out")))
    with pytest.raises(ModelError, match="the limit is 2"):
        pipeline.with_query(query).with_query(pipeline.query("third", SELECT))
    with pytest.raises(ModelError, match="built-in function named abs"):
        pipeline.with_predicate("abs", lambda a, b: a == b, by_row=True)


def test_an_error_of_a_statement_points_at_it() -> None:
    with pytest.raises(SqlError) as caught:
        Pipeline.read(STREAMS + "\nDROP QUERY nobody;", "shop.sql")
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == ("shop.sql", 5)


def test_all_errors_are_found_but_those_that_follow_from_others() -> None:
    script = STREAMS.replace("a BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 'in/r'", "a BIGINTEGER)")
    pipeline, errors = check_script(Pipeline(), script + f"CREATE QUERY q AS {SELECT}; DROP QUERY nobody;", "shop.sql")
    assert list(pipeline.streams) == ["s"]
    assert len(errors) == 2
    assert "no query named nobody" in str(errors[1])


def test_without_spark_a_query_has_the_forms_that_need_none() -> None:
    windowed = SELECT.replace("WINDOW 1 SECOND", "WINDOW TUMBLE 1 SECOND")
    by_spark, local = Pipeline.read(STREAMS), Pipeline.read(STREAMS, options=Options(executor="local"))
    kinds = [
        [form.kind for form in each.with_query(each.query("q", windowed)).queries["q"].forms]
        for each in (by_spark, local)
    ]
    assert kinds == [["pair rows", "task", "batch"], ["pair rows", "task"]]
    backfilled = local.with_query(local.query("q", windowed, backfill=True)).queries["q"]
    assert [form.kind for form in backfilled.forms] == kinds[1], "once it has been backfilled, it may have either"
    with pytest.raises(ModelError, match="its windows are computed by Spark, and with executor=local there is none"):
        local.with_query(local.query("q", "SELECT median(a) AS m FROM r [TUMBLE 1 SECOND]"))
