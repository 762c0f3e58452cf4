"""Every field of the syntax tree is read, or the query is rejected: nothing that was written is ignored.

The parser knows the grammar of thirty dialects and has a field for whatever it met. So each node remembers which of its
fields a reader has asked for. In the end a field that has a value, and that nobody has asked for, is an error at its
place. A reader therefore needs no list of what it does not support, and a new version of the parser cannot add a
field that would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from watersmeet.sql.parse.places import Places
from watersmeet.sql.site import Site, backticks_hint

# Fields that mean nothing for the result: quotes around a name, a hint for Spark's optimizer, the word OVER, and how
# another dialect would have to write Spark's operators.
WITHOUT_MEANING = {
    *((exp.Identifier, "quoted"), (exp.Select, "hint"), (exp.Window, "over")),
    *((exp.Div, "safe"), (exp.Div, "typed"), (exp.DPipe, "safe")),
}
_LONGEST = 60  # characters of the text that a message repeats


class _Fields(dict[str, Any]):
    """The fields of one node. Walks over the whole tree iterate over the values, which is not reading them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def remember_reads(root: Any) -> None:
    for node in root.walk():
        node.args = _Fields(node.args)


def unread(root: Any) -> Iterator[tuple[Any, str]]:
    """The nodes with a field that has a value and that no reader has asked for, from the top down."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        fields = node.args
        # Nodes that were made by a reader are no _Fields; what stands below them may be.
        forgotten = [
            name
            for name, value in fields.items()
            if _has_value(value)
            and isinstance(fields, _Fields)
            and name not in fields.read
            and (type(node), name) not in WITHOUT_MEANING
        ]
        yield from ((node, name) for name in forgotten)
        for name, value in fields.items():
            if name not in forgotten and (type(node), name) not in WITHOUT_MEANING:
                listed = value if isinstance(value, list) else [value]
                waiting += [each for each in listed if isinstance(each, exp.Expr)]


def check_all_read(site: Site, root: Any, places: Places, words: Mapping[str, str]) -> None:
    """Reject the first field that was written and that nobody has read; `words` has what opens a clause."""
    for node, name in unread(root):
        value = dict.get(node.args, name)
        listed = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, exp.Expr)]
        if isinstance(node, exp.Literal) and isinstance(node.parent, exp.Column):  # a."b"
            span = places.span(node)
            hint = backticks_hint(node.name, node.parent.table)
            site.fail(span, f"{site.text[span[0] : span[1]]} is a string, not a name", hint=hint)
        written = words.get(name, name.replace("_", " ").strip().upper())
        start, end = places.clause(written, [*listed, node])
        if name not in words and listed:  # the parser's name for it says nothing
            written = site.text[start:end][:_LONGEST]
        site.fail(
            (start, end),
            f"{written} is not supported" if name in words else f"{written} is not supported here",
            hint="remove it; docs/semantics.md and docs/windows.md list what is supported",
        )


def _has_value(value: object) -> bool:
    return value is not None and value is not False and value not in ([], "")
