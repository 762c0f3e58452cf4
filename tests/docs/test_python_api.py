"""The public Python API: documented, annotated, with examples that run, and docs/python.md made from it."""

from __future__ import annotations

import doctest
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import watersmeet
from tests.docs.python_reference import MARK, ORDER, PAGE, STATS, members, page, parsed, public_classes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def documented() -> Iterator[tuple[str, Any]]:
    """All that the reference has."""
    for kind in (*public_classes(), *STATS):
        yield kind.__name__, kind
        for name, member in members(kind):
            yield f"{kind.__name__}.{name}", member


DOCUMENTED = dict(documented())
CALLED = {name: member for name, member in DOCUMENTED.items() if inspect.isfunction(member)}
EXAMPLES = {name: member for name, member in DOCUMENTED.items() if "Example" in parsed(member).sections}


def test_the_reference_has_all_that_the_package_offers() -> None:
    assert sorted(ORDER) == sorted(watersmeet.__all__)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_says_what_it_is_and_has_an_example(name: str) -> None:
    found = parsed(DOCUMENTED[name])
    assert found.text
    assert not re.search(r"^\w+\(.*\)", found.text), "a dataclass without a docstring has its signature as one"
    is_value = DOCUMENTED[name] in STATS
    assert is_value or ">>> " in found.sections["Example"]


@pytest.mark.parametrize("name", CALLED)
def test_a_method_says_what_it_takes_returns_and_raises(name: str) -> None:
    found, signature = parsed(CALLED[name]), inspect.signature(CALLED[name])
    taken = [each for each in signature.parameters if each != "self"]
    assert list(found.entries("Args")) == taken
    assert ("Returns" in found.sections) == (signature.return_annotation != "None")
    assert found.entries("Raises") or found.sections["Raises"] == "Nothing."


@pytest.mark.parametrize("kind", public_classes() + list(STATS), ids=lambda kind: kind.__name__)
def test_a_class_says_what_it_is_made_of(kind: type) -> None:
    found = parsed(kind)
    named = list(found.entries("Args")) or list(found.entries("Attributes"))
    if kind is watersmeet.QueryHandle:  # an engine makes it
        assert named == ["name", "folder"]
    else:
        assert named == [each for each in inspect.signature(kind).parameters if each != "self"]


@pytest.mark.parametrize("name", CALLED)
def test_a_method_is_annotated(name: str) -> None:
    signature = inspect.signature(CALLED[name])
    assert signature.return_annotation is not signature.empty
    assert [n for n, each in signature.parameters.items() if n != "self" and each.annotation is each.empty] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_says(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks").mkdir()
    names: dict[str, Any] = {"spark": spark}
    run_example("watersmeet", parsed(watersmeet).sections["Example"], names)
    try:
        run_example(name, parsed(EXAMPLES[name]).sections["Example"], names)
    finally:
        names["engine"].stop()


def run_example(name: str, text: str, names: dict[str, Any]) -> None:
    """Run an example; `names` has what it defines afterwards."""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    example.globs = names
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append, clear_globs=False)
    assert (failed, tried > 0) == (0, True), "".join(said)


def test_the_page_is_made_from_the_docstrings() -> None:
    assert PAGE.read_text() == page(), "run ./run python -m tests.docs.python_reference"


def test_the_worked_example(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of the page, one after the other. In a notebook a person waits for rows; here a condition does."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = re.findall(r"^```python\n(.*?)^```", PAGE.read_text().split(MARK)[0], re.MULTILINE | re.DOTALL)
    try:
        for cell in cells:
            exec(compile(cell, "cell", "exec"), names)
            if "to_parquet" in cell and "engine" in names:
                engine = names["engine"]
                expected = 2 * len(os.listdir("trades"))
                eventually(lambda: engine.failure or engine.stats().streams[0].rows == expected)  # noqa: B023
                assert engine.failure is None
            if ".toPandas()" in cell:
                assert names["rises"].results().collect() == [("A", 100.0, 101.5)]
            if "averages" in cell:
                averages = names["averages"]
                eventually(lambda: averages.results().where("window_end = '2026-01-01 10:00:10'").count() == 2)  # noqa: B023
            elif "backfill" in cell:
                falls = names["falls"]
                eventually(lambda: falls.results().collect() == [("B", 20.0, 19.0)])  # noqa: B023
    finally:
        if "engine" in names:
            names["engine"].stop()
