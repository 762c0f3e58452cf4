"""The SELECT list: stars spelled out, plain columns, and expressions over the members' columns.

`*` gives every column of every alias; a column that USING made one comes once, first. Where a name that
comes from a star would appear twice in the result, it becomes `alias_column`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.model import Output, member_column
from watersmeet.model.types import arrow_type
from watersmeet.sql.bind import Binder
from watersmeet.sql.scope import Member, Scope
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Item, Reference, Scalar


@dataclass(frozen=True)
class _Draft:
    output: Output
    span: Span
    starred: Member | None


def build_outputs(site: Site, scope: Scope, binder: Binder, items: tuple[Item, ...]) -> tuple[Output, ...]:
    drafts = [draft for item in items for draft in _drafts(site, scope, binder, item)]
    times = Counter(draft.output.name.lower() for draft in drafts)
    outputs: list[Output] = []
    for draft in drafts:
        output = draft.output
        if draft.starred and times[output.name.lower()] > 1:
            name = f"{draft.starred.alias}_{output.name}"
            output = Output(name, output.type, output.alias, output.column)
        if any(output.name.lower() == before.name.lower() for before in outputs):
            site.fail(
                draft.span,
                f"two outputs are named {output.name}",
                detail="Names of outputs ignore case.",
                hint="give one of them another name with AS",
            )
        outputs.append(output)
    return tuple(outputs)


def _drafts(site: Site, scope: Scope, binder: Binder, item: Item) -> Iterator[_Draft]:
    if item.scalar is not None:
        yield _Draft(_output(site, scope, binder, item, item.scalar), item.name.span if item.name else item.span, None)
    elif item.qualifier:
        member = scope.known_member(item.qualifier)
        for column in member.stream.columns:
            yield _Draft(Output(column.name, column.type, member.alias, column.name), item.span, member)
    else:
        for name, group in scope.merged.items():
            column = group[0].stream.column(name)
            yield _Draft(Output(column.name, column.type, group[0].alias, column.name), item.span, group[0])
        for member in scope.members:
            for column in member.stream.columns:
                if member not in scope.merged.get(column.name.lower(), []):
                    yield _Draft(Output(column.name, column.type, member.alias, column.name), item.span, member)


def _output(site: Site, scope: Scope, binder: Binder, item: Item, scalar: Scalar) -> Output:
    reference = scalar.only_reference()
    resolved = scope.resolve(reference) if reference else None
    if resolved and not resolved.fields:
        name = item.name.text if item.name else resolved.column.name
        return Output(name, resolved.column.type, resolved.member.alias, resolved.column.name)
    if item.name is None:
        site.fail(item.span, "a computed output needs a name", hint="add AS and a name")
    binder.check_functions(scalar)
    read = {}
    for one in map(scope.resolve, scalar.references()):
        read[one.member.alias, one.column.name] = one.column.type

    def rename(reference: Reference) -> tuple[str, ...]:
        one = scope.resolve(reference)
        return member_column(one.member.alias, one.column.name), *one.fields

    text = scalar.duckdb(site, rename)
    columns = {member_column(*pair): arrow_type(kind) for pair, kind in read.items()}
    kind = binder.type_of(scalar, text, columns)
    return Output(item.name.text, kind, expression=text, reads=tuple(sorted(read)))
