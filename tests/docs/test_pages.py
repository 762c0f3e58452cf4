"""What README and docs show is true: links lead somewhere, commands and options exist, SQL and Python are accepted.

`tests/docs/test_orders_example.py` runs the README's example.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer

from tests.docs.pages import ROOT, all_pages, commands, read
from tests.tiers import TIERS
from watersmeet.cli.app import app as watersmeet_app
from watersmeet.pipeline import Pipeline, check_script

WIDTH = 120
PAGES = pytest.mark.parametrize("path", all_pages(), ids=lambda path: str(path.relative_to(ROOT)))
SUBCOMMAND = re.compile(r"[a-z][\w-]*")  # not a placeholder, such as COMMAND or …

# Streams that a page reads and does not declare, and what stands for `SELECT …` where a page shows something else.
STREAMS = {
    "bids": "at TIMESTAMP, auction BIGINT, bidder BIGINT, price BIGINT",
    "auctions": "at TIMESTAMP, id BIGINT, seller BIGINT, category INT",
}
SELECT = """SELECT b.auction, b.bidder, a.category
    FROM bids [RANGE 1 MINUTE] b, auctions [RANGE 1 MINUTE] a WHERE b.auction = a.id"""


@PAGES
def test_links_lead_somewhere(path: Path) -> None:
    for link in read(path).links:
        if re.match(r"\w+:", link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in read(target).anchors, f"{link}: no such heading"


@PAGES
def test_lines_of_prose_are_not_long(path: Path) -> None:
    for number, line in read(path).prose:
        without_addresses = re.sub(r"\]\([^)]*\)", "]", line)  # which cannot be broken
        assert len(without_addresses) <= WIDTH or line.startswith("|"), f"line {number} has {len(line)} characters"


@pytest.fixture(scope="module")
def tools() -> dict[str, dict[str, set[str]]]:
    """For each command line tool the options of each of its commands; "" is the tool itself."""
    from bench.__main__ import app as bench_app  # noqa: PLC0415 - it takes a second

    return {"watersmeet": options_of(watersmeet_app), "bench/run": options_of(bench_app)}


def options_of(app: typer.Typer) -> dict[str, set[str]]:
    group = typer.main.get_command(app)
    listed = {"": group, **group.commands}  # type: ignore[attr-defined]
    return {
        name: {"--help", *(o for p in one.params for o in (*p.opts, *p.secondary_opts))} for name, one in listed.items()
    }


def run_commands() -> set[str]:
    """The cases of the script `run`; that of all other tests is one for each tier."""
    cases = re.findall(r"^    ([\w|* -]+)\)", (ROOT / "run").read_text(), re.M)
    names = {name.strip() for case in cases for name in case.split("|")}
    return names | {f"test-{name}" for name in ("all", *(tier.name for tier in TIERS)) if "test-*" in names}


def wrong_parts(command: str, tools: dict[str, dict[str, set[str]]]) -> list[str]:
    """The parts of a command that do not exist. `#` begins a comment, `…` and what follows quotes is not looked at."""
    words = re.sub(r"(\s#.*)|\"[^\"]*\"?|'[^']*'?|[\[\]]", " ", command).split()
    if words and re.fullmatch(r"(\.\./)*(\./)?run", words[0]) and len(words) > 1:
        if SUBCOMMAND.fullmatch(words[1]) and words[1] not in run_commands():
            return words[1:2]
        words = words[1:]
    if words[:2] == ["python", "-m"] and words[2].startswith("bench"):
        module = ROOT.joinpath(*words[2].split("."))
        return [] if module.with_suffix(".py").exists() or (module / "__main__.py").exists() else words[2:3]
    if not words or words[0] not in tools:
        return []
    options = tools[words[0]]
    name = next((word for word in words[1:2] if SUBCOMMAND.fullmatch(word)), "")
    if name not in options:
        return [name]
    given = (word.split("=")[0] for word in words[1:] if word.startswith("--"))
    known = options[name] if name or words[1:2] != ["COMMAND"] else {"--help"}
    return [option for option in given if option not in known]


@PAGES
def test_commands_and_their_options_exist(path: Path, tools: dict[str, dict[str, set[str]]]) -> None:
    wrong = {command: found for command in commands(read(path)) if (found := wrong_parts(command, tools))}
    assert not wrong


def test_what_does_not_exist_is_found(tools: dict[str, dict[str, set[str]]]) -> None:
    cases = {
        "watersmeet start": ["start"],
        "watersmeet run p.sql --hom x": ["--hom"],
        "./run watersmeet run … --hom=x": ["--hom"],
        "./run tests": ["tests"],
        "./run python -m bench.nothing": ["bench.nothing"],
        "bench/run nexmarks": ["nexmarks"],
        "bench/run nexmark --scales 2": ["--scales"],
        'watersmeet add --home state "CREATE QUERY x --no" # --no': [],
    }
    assert {command: wrong_parts(command, tools) for command in cases} == cases


def complete(sql: str) -> str:
    """A script that can be checked, of an example on a page."""
    sql = sql.replace("SELECT …", SELECT).strip()
    if sql.startswith("SELECT"):
        sql = f"CREATE QUERY q AS {sql}"
    streams = [
        f"CREATE STREAM {name} ({columns}) TIMESTAMP BY at FROM parquet '{name}'"
        for name, columns in STREAMS.items()
        if f"CREATE STREAM {name} " not in sql
    ]
    return ";\n".join([*streams, sql])


@PAGES
def test_sql_is_accepted(path: Path, tmp_path: Path) -> None:
    for block in read(path).blocks:
        if block.language == "sql" and block.comment != "fragment":
            script = complete(block.text)
            _, errors = check_script(Pipeline(home=tmp_path / "home"), script, str(tmp_path / "pipeline.sql"))
            assert not errors, f"{errors[0]}\n{script}"


@PAGES
def test_python_can_be_compiled(path: Path) -> None:
    for block in read(path).blocks:
        if block.language == "python":
            text = textwrap.dedent(block.text)
            signature = re.sub(r"^(\w+\.)+", "", text)  # of a function or class, where the block is no program
            assert compiles(text) or compiles(f"def {signature}: ..."), text


def compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
