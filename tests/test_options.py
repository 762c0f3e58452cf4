"""Options are checked as soon as they are given, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from watersmeet.cli.app import app
from watersmeet.errors import ModelError
from watersmeet.options import Options, read_options, user_options

WRONG = [
    ("tick", "banana", "100 milliseconds"),
    ("tick", "0 seconds", "above 0"),
    ("tick", "3 fortnights", "100 milliseconds"),
    ("partitions", "0", "1 to 1024"),
    ("partitions", "1.5", "a whole number"),
    ("plan_seconds", "soon", "a number"),
    ("plan_seconds", "nan", "above 0"),
    ("storage_budget", "-1", "0 or more"),
    ("executor", "flink", "spark or local"),
    ("residents", "-1", "auto or a number"),
    ("resident_seconds", "0.5", "1 or more"),
    ("settle_seconds", "-1", "0 or more"),
    ("master", "spark:/host", "local[4]"),
    ("searcher", "luck", "greedy"),
    ("materialize", "maybe", "on or off"),
    ("adaptive", "yes", "on or off"),
    ("epoch", "0", "1 or more"),
    ("predicate_seconds", "0", "above 0"),
    ("into_roots", "nowhere/at/all", "folders that exist"),
    ("max_matches", "-1", "0 or more"),
    ("max_result_bytes", "-1", "0 or more"),
    ("expression_seconds", "-1", "0 or more"),
    ("expression_memory", "much", "a whole number"),
    ("task_memory", "-1", "0 or more"),
    ("max_outbox_ticks", "0", "1 or more"),
    ("durability", "disk", "power or process"),
    ("result_delay", "-1 seconds", "0"),
    ("result_delay", "soon", "100 milliseconds"),
    ("stop_seconds", "-1", "0 or more"),
    ("window_seconds", "-1", "0 or more"),
    ("windows_per_tick", "0", "1 or more"),
    ("max_query_length", "0", "1 or more"),
    ("max_terms", "0", "1 or more"),
    ("max_depth", "0", "1 or more"),
    ("max_literal", "0", "1 or more"),
    ("check_seconds", "0", "above 0"),
    ("max_queries", "0", "1 or more"),
    ("max_windows_per_row", "0", "1 or more"),
    ("max_aliases", "33", "1 to 32"),
]


@pytest.mark.parametrize(("name", "value", "advice"), WRONG)
def test_a_wrong_value_is_rejected_with_what_to_give_instead(name: str, value: str, advice: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_options({name: value})
    assert f"option {name}: " in str(caught.value)
    assert advice in str(caught.value)


def test_every_option_has_a_wrong_value_in_this_test() -> None:
    assert {name for name, _, _ in WRONG} == {option.name for option in user_options()}


@pytest.mark.parametrize("command", ["check", "explain", "run"])
def test_the_command_line_rejects_it_before_anything_else(command: str, tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.sql"
    pipeline.write_text("CREATE STREAM s (a INT, at TIMESTAMP) TIMESTAMP BY at FROM parquet 's';")
    result = CliRunner().invoke(app, [command, str(pipeline), "--set", "tick=banana"])
    assert (result.exit_code, "banana" in result.stderr) == (2, True)


def test_an_unknown_option_names_the_nearest_one() -> None:
    with pytest.raises(ModelError, match=r"^unknown option partition: did you mean partitions"):
        read_options({"partition": 3})


@pytest.mark.parametrize(
    ("name", "value"), [("layouts", "one"), ("sharing", "none"), ("costs", "paper"), ("parallelism", "all")]
)
def test_an_option_that_is_gone_is_rejected_with_what_to_do(name: str, value: str) -> None:
    with pytest.raises(ModelError, match=rf"(?s)^option {name} no longer exists.*leave it out: the engine plans as"):
        read_options({name: value})
    with pytest.raises(ModelError, match=r"^unknown option research"):
        read_options({"research": value})


def test_values_come_as_texts_or_as_python_values() -> None:
    texts, spark = read_options({"partitions": "3", "adaptive": "off", "plan_seconds": "1", "spark.ui.enabled": True})
    assert texts == Options(partitions=3, adaptive="off", plan_seconds=1.0)
    assert spark == {"spark.ui.enabled": "True"}
    assert read_options({"adaptive": False, "partitions": 3, "plan_seconds": 1})[0] == texts
