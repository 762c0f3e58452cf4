"""FROM: streams, subqueries and joins of every kind, with the names that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

from watersmeet.errors import ModelError
from watersmeet.model import Stream
from watersmeet.model.stream import check_name
from watersmeet.sql import tree
from watersmeet.sql.resolve.resolved import OutColumn, ResolvedJoin, ResolvedQuery, ResolvedSource, Scan, Subselect
from watersmeet.sql.resolve.scope import Scope, ScopedTable, Visible
from watersmeet.sql.resolve.typing import SparkTyping, Untyped
from watersmeet.sql.site import Site, did_you_mean
from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Call, Scalar

Environment = Mapping[str, tuple[tree.Common, "Environment"]]  # names of WITH, by lower case, each with what it sees
ResolveQuery = Callable[[tree.Query, Scope | None, Environment], ResolvedQuery]
ResolveCondition = Callable[[Scalar, Scope], Scalar]


class Labels:
    """Names of relations and columns in a resolved query, each used once, whatever the case."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, wanted: str) -> str:
        label, number = wanted, 1
        while label.lower() in self._used:
            number += 1
            label = f"{wanted}_{number}"
        self._used.add(label.lower())
        return label


class FromClause:
    """Reads the FROM clauses of one query and of its subqueries."""

    def __init__(
        self,
        site: Site,
        streams: Mapping[str, Stream],
        typing: SparkTyping | Untyped,
        query: ResolveQuery,
        on: ResolveCondition,
    ) -> None:
        self._site = site
        self._streams = {name.lower(): stream for name, stream in streams.items()}
        self._typing = typing
        self._query = query
        self._on = on
        self._labels = Labels()
        self.tables: dict[str, tree.TableName] = {}  # all uses of streams, by label

    def read(self, source: tree.Source, parent: Scope | None, known: Environment) -> tuple[ResolvedSource, Scope]:
        if isinstance(source, tree.Join):
            return self._join(source, parent, known)
        if isinstance(source, tree.TableName):
            common = known.get(source.name.text.lower())
            if common is None:
                return self._stream(source, parent)
            query = self._query(common[0].query, None, common[1])
            renamed = source.columns or common[0].columns
        else:
            query, renamed = self._query(source.query, parent, known), source.columns
        alias = source.alias
        label = self._labels.new(alias.text or "subquery")
        columns = self._renamed(query.outputs, renamed, alias)
        relation = ScopedTable(alias.text, label, columns)
        return Subselect(label, query), Scope.of(self._site, relation, parent)

    def _stream(self, table: tree.TableName, parent: Scope | None) -> tuple[ResolvedSource, Scope]:
        stream = self._streams.get(table.name.text.lower())
        if stream is None:
            known = sorted(each.name for each in self._streams.values())
            self._site.fail(
                table.name.span,
                f"unknown stream {table.name.text}",
                detail=f"Streams: {', '.join(known)}." if known else "There are no streams.",
                hint=did_you_mean(table.name.text, known),
            )
        try:
            check_name("alias", table.alias.text)
        except ModelError as error:
            self._site.adopt(table.alias.span, error)
        label = self._labels.new(table.alias.text)
        self.tables[label] = table
        plain = tuple(OutColumn(column.name, column.name, column.type) for column in stream.columns)
        columns = self._renamed(plain, table.columns, table.alias)
        scan = Scan(label, table.alias.text, stream.name)
        return scan, Scope.of(self._site, ScopedTable(table.alias.text, label, columns, stream.name), parent)

    def _renamed(self, columns: tuple[OutColumn, ...], names: tuple[Name, ...], alias: Name) -> tuple[OutColumn, ...]:
        if not names:
            return columns
        if len(names) != len(columns):
            self._site.fail(
                names[0].span,
                f"{alias.text} has {len(columns)} columns and {len(names)} names",
                hint="name each column, or none",
            )
        return tuple(
            OutColumn(name.text, column.label, column.type) for name, column in zip(names, columns, strict=True)
        )

    def _join(self, join: tree.Join, parent: Scope | None, known: Environment) -> tuple[ResolvedSource, Scope]:
        left, names = self.read(join.left, parent, known)
        right, others = self.read(join.right, parent, known)
        for relation in others.relations:
            if relation.alias and any(relation.alias.lower() == each.alias.lower() for each in names.relations):
                self._used_twice(join.right, relation.alias)
        visible = [*names.visible, *others.visible]
        both = Scope(self._site, [*names.relations, *others.relations], parent, visible)
        using = join.using or (_common_names(join.written, names, others) if join.natural else ())
        on = self._on(join.on, both) if join.on is not None else None
        keys: list[Visible] = []
        for name in using:
            one, other = names.key(name), others.key(name)
            equal = self._equal(name, one, other)
            on = equal if on is None else Call("and", (on, equal))
            keys.append(self._merged(join.kind, one, other))
            both.hidden += [each for each in (one, other) if each.relation and each.relation is not keys[-1].relation]
        kind = "cross" if on is None and join.kind == "inner" else join.kind
        source = ResolvedJoin(kind, left, right, on, join.written)
        if kind in ("semi", "anti"):
            names.put_first(keys)
            return source, names
        both.put_first(keys)
        both.hidden += [*names.hidden, *others.hidden]
        return source, both

    def _equal(self, name: Name, one: Visible, other: Visible) -> Scalar:
        equal = Call("=", (one.value, other.value), where=lambda: name.span)
        self._typing.condition(equal)
        return equal

    def _merged(self, kind: str, one: Visible, other: Visible) -> Visible:
        if kind != "full":
            return replace(other if kind == "right" else one, merged=True)
        value = Call("coalesce", (one.value, other.value))
        column = OutColumn(one.column.name, one.column.name, self._typing.value(value).type)
        return Visible(None, column, value, merged=True)

    def _used_twice(self, source: tree.Source, alias: str) -> NoReturn:
        last = source
        while isinstance(last, tree.Join):
            last = last.right
        hint = "give each use another name with AS"
        if isinstance(last, tree.TableName):
            hint = f"name each use of a stream, for example {last.name.text} AS {alias}{len(self.tables)}"
        self._site.fail(last.alias.span, f"alias {alias} is used twice", hint=hint)


def _common_names(join: Name, left: Scope, right: Scope) -> tuple[Name, ...]:
    theirs = {each.column.name.lower() for each in right.visible}
    return tuple(Name(each.column.name, join.span) for each in left.visible if each.column.name.lower() in theirs)
