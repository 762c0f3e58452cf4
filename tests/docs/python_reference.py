"""docs/python.md from the docstrings of the package. `./run python -m tests.docs.python_reference` writes it.

What stands before the mark in the page is written by hand and stays as it is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import watersmeet
from watersmeet.control.stats import OutboxStats, QueryStats, Stats, StoreStats, StreamStats

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MARK = "<!-- Made from docstrings: change those, then run ./run python -m tests.docs.python_reference -->\n"
ORDER = ("Engine", "QueryHandle", "Stream", "Column", "Source", "Sink", "WatersmeetError")
STATS = (Stats, StreamStats, StoreStats, QueryStats, OutboxStats)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):$", re.MULTILINE)
_WIDEST = 100  # characters of a signature on one line


@dataclass
class Docstring:
    text: str
    sections: dict[str, str] = field(default_factory=dict)

    def entries(self, section: str) -> dict[str, str]:
        """The named lines of a section such as Args."""
        parts = re.split(r"^(\w+): ", self.sections.get(section, ""), flags=re.MULTILINE)
        return {name: meaning.strip() for name, meaning in zip(parts[1::2], parts[2::2], strict=True)}


def parsed(documented: Any) -> Docstring:
    text, *parts = _SECTION.split(inspect.getdoc(documented) or "")
    sections = {name: inspect.cleandoc(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Docstring(text.strip(), sections)


def is_internal(documented: Any) -> bool:
    return (inspect.getdoc(documented) or "").startswith("Internal:")


def public_classes() -> list[type]:
    return [getattr(watersmeet, name) for name in ORDER]


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, also inherited ones, in the order of the source."""
    for owner in kind.__mro__:
        if owner.__module__.startswith("watersmeet"):
            for name, member in vars(owner).items():
                called = inspect.isfunction(member) and (not name.startswith("_") or name == "__getitem__")
                shown = isinstance(member, property) and not name.startswith("_")
                if (called or shown) and not is_internal(member):
                    yield name, member


def reference() -> str:
    lines = ["## Reference\n", *_body(parsed(watersmeet))]
    for kind in (*public_classes(), *STATS):
        inside = kind in STATS
        name = kind.__name__ if inside else f"watersmeet.{kind.__name__}"
        lines += [f"### {name}\n", *([] if inside or kind is watersmeet.QueryHandle else _signature(name, kind))]
        lines += _body(parsed(kind))
        for member_name, member in members(kind):
            lines += [f"#### {kind.__name__}.{member_name}\n", *_member(kind, member_name, member)]
    return "\n".join(lines).rstrip() + "\n"


def _member(kind: type, name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
        yield f"Property: `{returned}`\n"
    else:
        yield from _signature(f"{kind.__name__}.{name}", member)
    yield from _body(parsed(member))


def _signature(name: str, called: Any) -> Iterator[str]:
    signature = inspect.signature(called)
    own = list(_parameters(signature))
    returned = str(signature.return_annotation)
    arrow = "" if isinstance(called, type) or returned == "None" else f" -> {returned}"
    line = f"{name}({', '.join(own)}){arrow}"
    if len(line) > _WIDEST:
        line = "\n".join([f"{name}(", *(f"    {each}," for each in own), f"){arrow}"])
    yield f"```python\n{line}\n```\n"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Parameters as in the source, where annotations are texts."""
    prefixes: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    is_keyword = False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            yield "*"
        default = "" if each.default is each.empty else f" = {each.default!r}"
        yield f"{prefixes.get(each.kind, '')}{each.name}: {each.annotation}{default}"


def _body(doc: Docstring) -> Iterator[str]:
    yield re.sub(r"docs/((\w+)\.md)", r"[\2](\1)", doc.text) + "\n"
    for section, title in (("Args", "Arguments"), ("Attributes", "Attributes")):
        if entries := doc.entries(section):
            yield f"{title}:\n"
            yield from _listed(entries)
    if "Returns" in doc.sections:
        yield f"Returns: {doc.sections['Returns'][0].lower()}{doc.sections['Returns'][1:]}\n"
    if entries := doc.entries("Raises"):
        yield "Raises:\n"
        yield from _listed(entries)
    if "Example" in doc.sections:
        yield f"```pycon\n{doc.sections['Example']}\n```\n"


def _listed(entries: dict[str, str]) -> Iterator[str]:
    for name, meaning in entries.items():
        linked = re.sub(r"docs/((\w+)\.md)", r"[\2](\1)", meaning)
        yield f"- `{name}`: " + re.sub(r"\n\s*", "\n  ", linked)
    yield ""


def page() -> str:
    return PAGE.read_text().split(MARK)[0] + MARK + "\n" + reference()


if __name__ == "__main__":
    PAGE.write_text(page())
