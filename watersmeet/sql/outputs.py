"""The SELECT list: stars spelled out, plain columns, and expressions over the members' columns.

`*` gives every column of every alias; a column that USING made one comes once, first. Where a name that
comes from a star would appear twice in the result, it becomes `alias_column`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from watersmeet.model import Column, ColumnRef, Expression, Output, SparkCall
from watersmeet.sql.bind import Binder
from watersmeet.sql.scope import Member, Resolved, Scope
from watersmeet.sql.site import Site, Span, name_hint
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
            output = replace(output, name=name)
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
        for each in (*scope.hidden, *scope.starred):
            if each.member is member:
                yield _starred(item, member, each.column)
    else:
        for each in scope.starred:
            yield _starred(item, each.member, each.column)


def _starred(item: Item, member: Member, column: Column) -> _Draft:
    read = Resolved(member, column, ()).expression(member.alias)
    return _Draft(Output(column.name, column.type, read), item.span, member)


def output_value(site: Site, scope: Scope, binder: Binder, scalar: Scalar) -> Expression:
    """What is selected, over the rows of all members."""

    def resolve(reference: Reference) -> Expression:
        found = scope.resolve(reference)
        return found.expression(found.member.alias)

    binder.check_functions(scalar)
    return binder.bound(scalar, scalar.expression(site, resolve))


def _output(site: Site, scope: Scope, binder: Binder, item: Item, scalar: Scalar) -> Output:
    value = output_value(site, scope, binder, scalar)
    if isinstance(value, ColumnRef) and not isinstance(value, SparkCall):
        # As it is written, not as it is declared: Spark does so, too.
        written = item.name.text if item.name else scalar.references()[0].parts[-1]
        return Output(written, value.type, value)
    if item.name is None:
        site.fail(item.span, "a computed output needs a name", hint=name_hint(site, item.span))
    return Output(item.name.text, value.type, value)
