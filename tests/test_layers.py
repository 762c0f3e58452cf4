"""Imports point downward: the layers that docs/architecture.md lists, compared with the imports in the source."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "watersmeet"
DOCUMENT = ROOT / "docs" / "architecture.md"

Imports = dict[str, set[str]]  # by module, as names below `watersmeet`


def documented_layers() -> list[list[str]]:
    """The layers from the highest to the lowest, each a list of packages or modules; `*` stands for any name."""
    (block,) = re.findall(r"^```layers\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return [re.split(r"[\s,]+", line.split("  ")[0].strip()) for line in block.splitlines() if line.strip()]


def source_imports() -> Imports:
    modules = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    return {
        module: set(imported(ast.parse(path.read_text()), set(modules))) - {module, ""}
        for module, path in modules.items()
        if module and path.read_text().strip()  # the package itself only offers names, an empty one nothing
    }


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """All imports of our own, also those inside of functions and those that only type checkers see."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "watersmeet":
                below = name.removeprefix("watersmeet").removeprefix(".")
                yield below if below in modules else below.rpartition(".")[0]


def layer_of(module: str, layers: list[list[str]]) -> tuple[int, str] | None:
    """The number of a module's layer and the entry that it belongs to: the most specific one."""
    found = [
        (len(entry), (number, entry))
        for number, layer in enumerate(layers)
        for entry in layer
        if fnmatch.fnmatchcase(module, entry) or fnmatch.fnmatchcase(module, f"{entry}.*")
    ]
    return max(found)[1] if found else None


def upward_imports(imports: Imports, layers: list[list[str]]) -> list[str]:
    wrong = []
    for module, targets in sorted(imports.items()):
        here = layer_of(module, layers)
        if here is None:
            wrong.append(f"{module} is in no layer")
            continue
        for target in sorted(targets):
            there = layer_of(target, layers)
            if there is not None and there[1] != here[1] and there[0] <= here[0]:
                wrong.append(f"{module} (layer {here[1]}) imports {target} (layer {there[1]})")
    return wrong


def cycles(imports: Imports) -> list[list[str]]:
    """Groups of modules that import each other, directly or not (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in imports.get(module, ()):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in imports:
        if module not in index:
            visit(module)
    return found


def test_no_layer_imports_a_higher_one() -> None:
    assert upward_imports(source_imports(), documented_layers()) == []


def test_no_modules_import_each_other() -> None:
    assert cycles(source_imports()) == []


def test_files_stay_short() -> None:
    tracked = [path for folder in ("watersmeet", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    ours = [path for path in tracked if not any(part.startswith(".venv") for part in path.parts)]
    long = {
        str(path.relative_to(ROOT)): length for path in ours if (length := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def test_every_documented_room_exists() -> None:
    modules = {module_name(path) for path in PACKAGE.rglob("*.py")}
    assert [entry for layer in documented_layers() for entry in layer if not fnmatch.filter(modules, entry)] == []


@pytest.mark.parametrize(
    ("added", "complaint"),
    [
        (("model.stream", "engine"), "model.stream (layer model) imports engine (layer engine)"),
        (("store.bucket", "runtime.loop"), "store.bucket (layer store) imports runtime.loop (layer runtime.loop)"),
        (("somewhere", "model"), "somewhere is in no layer"),
    ],
)
def test_an_upward_import_is_found(added: tuple[str, str], complaint: str) -> None:
    imports = with_import(source_imports(), *added)
    assert complaint in upward_imports(imports, documented_layers())


def test_a_cycle_is_found() -> None:
    imports = with_import(source_imports(), "errors", "model.types")
    assert any({"errors", "model.types"} <= set(group) for group in cycles(imports))


def with_import(imports: Imports, module: str, target: str) -> Imports:
    known: Iterable[str] = imports.get(module, ())
    return {**imports, module: {*known, target}}
