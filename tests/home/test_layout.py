"""Names of files and folders of a home stand in `home/layout.py` only, and `home` is the lowest package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import watersmeet
from watersmeet.home import layout
from watersmeet.points import POINTS

SOURCE = Path(watersmeet.__file__).parent
ELSEWHERE = {
    ("cli/sample_project/__init__.py", "orders"),  # a folder of the sample's input
    *(("io/connectors/delta/log.py", name) for name in ("*.json", ".json", "(\\d{20})\\.json")),  # of Delta's own log
}
BELOW_HOME = ("watersmeet.errors", "watersmeet.points", "watersmeet.model", "watersmeet.home")


def constants(tree: ast.AST) -> Iterator[str]:
    """Strings that are no docstrings, and the constant pieces of f-strings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def parts(text: str) -> list[str]:
    return [part for part in text.split("/") if any(letter.isalpha() for letter in part)]


NAMES = {part for text in constants(ast.parse(Path(layout.__file__).read_text())) for part in parts(text)}
SUFFIXES = tuple(name for name in NAMES if name.startswith("."))
# Other words may mean something else, unless they stand in a path.
TELLING = {name for name in NAMES if "." in name or name.startswith("_")}


def path_operands(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        inside: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            inside = [node.left, node.right]
        elif isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            inside = node.args if named in ("Path", "join", "joinpath", "glob", "rglob", "with_name") else []
        for operand in inside:
            yield from constants(operand)


def home_names(tree: ast.AST) -> set[str]:
    found = set()
    for text in constants(tree):
        if text in POINTS or any(letter.isspace() for letter in text):  # texts for people may name files
            continue
        found |= {part for part in parts(text) if part in TELLING or part.endswith(SUFFIXES)}
        if "/" in text:
            found |= NAMES & set(parts(text))
    return found | {part for text in path_operands(tree) for part in parts(text) if part in NAMES}


def test_the_names_are_known() -> None:
    assert {"manifests", "state", "_staging", ".bucket", "ticks.jsonl", "lock", "error.log"} <= NAMES


@pytest.mark.parametrize(
    "code",
    [
        'home / "state"',
        'f"state/{store}/{tick}"',
        'home / "rejected" / stream',
        'Path(home, "lock")',
        'home.glob("results/*")',
        'os.path.join(home, "orders")',
        'LOG = "ticks.jsonl"',
        'home / f"{name}.staged"',
        'path.with_suffix(".draft")',
        'f"{number}.bucket"',
    ],
)
def test_a_name_of_the_home_is_found(code: str) -> None:
    assert home_names(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    ['raw["results"]', 'table("query", "results")', '"""About ticks.jsonl."""', '"see state/bids for it"', "a / 2"],
)
def test_other_strings_are_not(code: str) -> None:
    assert not home_names(ast.parse(code))


def test_no_other_module_names_a_file_of_the_home() -> None:
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        if path != Path(layout.__file__)
        for name in home_names(ast.parse(path.read_text()))
    }
    assert found == ELSEWHERE, "such names belong into home/layout.py"


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "watersmeet":
            yield from (f"watersmeet.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_home_is_below_all_other_packages() -> None:
    found = [
        (path.name, name)
        for path in (SOURCE / "home").glob("*.py")
        for name in imports(ast.parse(path.read_text()))
        if name.startswith("watersmeet") and not name.startswith(BELOW_HOME)
    ]
    assert not found


def test_all_paths_are_below_the_home() -> None:
    home = Path("/home")
    assert (
        home / layout.bucket_file("s", 7, "attempt", "0-1") == home / layout.STATE / "s/000000000007-attempt-0-1.bucket"
    )
    assert layout.draft(home / layout.GROUPS).parent == home
    staged = layout.staged(layout.results(home, "q"), layout.data_file(7, "attempt", "0", "csv"))
    assert staged == home / "results/q/_staging/000000000007-attempt-0.csv.staged"
