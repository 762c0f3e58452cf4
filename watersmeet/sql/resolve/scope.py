"""The names that a query sees: the columns of the relations in its FROM, and those of the query around it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

from watersmeet.sql.resolve.resolved import Bound, OutColumn, WindowEnd
from watersmeet.sql.site import Site, did_you_mean
from watersmeet.sql.syntax import WINDOW, WINDOW_FIELDS, Name
from watersmeet.sql.tree import ColumnName, Field, Scalar

_ENDS = {"window_start": False, "window_end": True}


@dataclass(frozen=True)
class ScopedTable:
    """A stream or a subquery of FROM, with the columns that it gives."""

    alias: str
    label: str
    columns: tuple[OutColumn, ...]
    stream: str = ""

    def having(self, name: str) -> list[OutColumn]:
        return [column for column in self.columns if column.name.lower() == name.lower()]

    def bound(self, column: OutColumn) -> Bound:
        return Bound(self.label, column.label, column.type)


@dataclass(frozen=True)
class Visible:
    """A column that can be named without an alias: a part of `*`."""

    relation: ScopedTable | None  # None: FULL JOIN … USING has made it of two
    column: OutColumn
    value: Scalar
    merged: bool = False  # stands for the columns of several relations

    def has_name(self, name: str) -> bool:
        return self.column.name.lower() == name.lower()


@dataclass
class Scope:
    """What can be named in one SELECT."""

    site: Site
    relations: list[ScopedTable]
    parent: Scope | None = None
    visible: list[Visible] = field(default_factory=list)  # in the order of Spark's `*`
    hidden: list[Visible] = field(default_factory=list)  # by USING: only with an alias, and first in `alias.*`

    @classmethod
    def of(cls, site: Site, relation: ScopedTable, parent: Scope | None = None) -> Scope:
        visible = [Visible(relation, column, relation.bound(column)) for column in relation.columns]
        return cls(site, [relation], parent, visible)

    def put_first(self, keys: list[Visible]) -> None:
        """The columns of USING, once and first."""
        names = {key.column.name.lower() for key in keys}
        self.visible = [*keys, *(each for each in self.visible if each.column.name.lower() not in names)]

    def column(self, written: ColumnName, *, windowed: bool = True) -> Scalar:
        """What a column stands for; raises SqlError."""
        found = self.find(written) or (_window_end(written) if windowed else None)
        if found is None and self.parent is not None:
            found = self.parent.find(written)
            if found is None and self.parent.parent and self.parent.parent.find(written) is not None:
                self.site.fail(
                    written.span,
                    f"{'.'.join(written.parts)} belongs to a query two levels up",
                    hint="a subquery may read columns of the query right around it; join them there first",
                )
        if found is None:
            self._unknown(written)
        return found

    def starred(self, qualifier: Name | None) -> list[Visible]:
        """The columns of `*` or `alias.*`."""
        if qualifier is None:
            return self.visible
        relation = self._relation(qualifier.text)
        if relation is None:
            self._unknown_alias(qualifier)
        return [replace(each, merged=False) for each in (*self.hidden, *self.visible) if each.relation is relation]

    def key(self, name: Name) -> Visible:
        """The column of USING (name); raises SqlError."""
        having = [each for each in self.visible if each.has_name(name.text)]
        if not having:
            self._no_column(name, self.relations)
        if len(having) > 1:
            self._ambiguous(name, [each.alias for each in self.relations if each.having(name.text)])
        written = ColumnName((name.text,), where=lambda: name.span)
        return replace(having[0], value=_fields(having[0].value, (), written))

    def _relation(self, alias: str) -> ScopedTable | None:
        return next((each for each in self.relations if each.alias and each.alias.lower() == alias.lower()), None)

    def find(self, written: ColumnName) -> Scalar | None:
        """What a column of these relations stands for, if it is one."""
        first, *rest = written.parts
        relation = self._relation(first)
        if relation and rest:
            columns = relation.having(rest[0])
            if not columns:
                self._no_column(Name(rest[0], written.span), [relation])
            if len(columns) > 1:
                self._ambiguous(Name(rest[0], written.span), [relation.alias] * len(columns))
            return _fields(relation.bound(columns[0]), rest[1:], written)
        having = [each for each in self.visible if each.has_name(first)]
        if rest:  # only a struct has fields; for other columns the first part was to be an alias
            having = [each for each in having if each.column.type.startswith("struct")]
        if not having:
            return None
        if len(having) > 1:
            self._ambiguous(Name(first, written.span), [each.alias for each in self.relations if each.having(first)])
        return _fields(having[0].value, rest, written)

    def _unknown(self, written: ColumnName) -> NoReturn:
        if written.parts[0] == WINDOW:
            self.site.fail(written.span, "the window is no value of its own", hint="use window_start and window_end")
        name = Name(written.parts[0], written.span)
        if len(written.parts) > 1:
            self._unknown_alias(name)
        self._no_column(name, self.relations)

    def _unknown_alias(self, name: Name) -> NoReturn:
        known = sorted(each.alias for each in self.relations if each.alias)
        detail = f"Aliases: {', '.join(known)}." if known else "There are no aliases."
        self.site.fail(name.span, f"unknown alias {name.text}", detail=detail, hint=did_you_mean(name.text, known))

    def _no_column(self, name: Name, relations: list[ScopedTable]) -> NoReturn:
        detail = "\n".join(
            f"Columns of {each.alias or 'the subquery'}: {', '.join(column.name for column in each.columns)}."
            for each in relations
        )
        known = [column.name for each in relations for column in each.columns]
        problem = f"unknown column {name.text}"
        if len(relations) == 1:
            stream = f" (stream {relations[0].stream})" if relations[0].stream else ""
            problem = f"{relations[0].alias or 'the subquery'}{stream} has no column {name.text}"
        self.site.fail(name.span, problem, detail=detail, hint=did_you_mean(name.text, known))

    def _ambiguous(self, name: Name, aliases: list[str]) -> NoReturn:
        once = list(dict.fromkeys(alias for alias in aliases if alias))
        self.site.fail(
            name.span,
            f"column {name.text} is ambiguous",
            detail=f"Aliases that have it: {', '.join(once)}." if once else "",
            hint=f"write {' or '.join(f'{alias}.{name.text}' for alias in once)}"
            if len(once) > 1
            else "give the columns different names with AS",
        )


def _fields(value: Scalar, names: list[str] | tuple[str, ...], written: ColumnName) -> Scalar:
    if isinstance(value, Bound):
        value = Bound(value.relation, value.column, value.type, where=written.where)
    for name in names:
        value = Field(value, name, where=written.where)
    return value


def _window_end(written: ColumnName) -> Scalar | None:
    """`window_start`, `window_end`, and Spark's `window.start` and `window.end`."""
    parts = [part.lower() for part in written.parts]
    if len(parts) == 1 and parts[0] in _ENDS:
        return WindowEnd(_ENDS[parts[0]], where=written.where)
    if parts[0] == WINDOW and len(parts) > 1 and not parts[2:] and parts[1] in WINDOW_FIELDS:
        return WindowEnd(WINDOW_FIELDS[parts[1]], where=written.where)
    return None
