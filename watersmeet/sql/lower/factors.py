"""COUNT, SUM, AVG, MIN and MAX over an acyclic equality join, as partial aggregates below the join."""

from __future__ import annotations

from watersmeet.model import KeyPart
from watersmeet.model.expression import all_of
from watersmeet.model.forms import FactorizedAggregates, Member
from watersmeet.sql.lower.final import FinalBuilder, some_row
from watersmeet.sql.lower.join_conditions import FactorizedJoin
from watersmeet.sql.lower.join_partials import JoinPartials
from watersmeet.sql.lower.join_tree import equal_keys, join_tree
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.spark_text import is_constant
from watersmeet.sql.resolve.resolved import ResolvedSelect


def factorized_aggregates(lowering: Lowering, query: ResolvedSelect) -> FactorizedAggregates:
    """The query with partial aggregates below its join; raises DoesNotFit."""
    if not query.aggregated:
        raise DoesNotFit("it gives rows and not aggregates")
    join = FactorizedJoin(lowering, query)
    nodes = tuple(node for node in query.group or () if not is_constant(node))
    owners = [join.alias_of(node, "a key of GROUP BY") for node in nodes]
    keys = [join.rows.key(node) for node in nodes]
    classes, types = equal_keys(join.equalities)
    root = max(join.scans, key=owners.count)
    parents = join_tree(list(join.scans), classes, root)
    position = {alias: at for at, alias in enumerate(parents)}
    partials = JoinPartials(join, position)
    last = FinalBuilder(
        lowering,
        [(node, key.type) for node, key in zip(nodes, keys, strict=True)],
        partials.aggregate,
    )
    nonempty = some_row(partials.add("count", (), (), "bigint")) if query.group is not None and not keys else None
    outputs, final = last.read(query, nonempty=nonempty)
    members, owned = [], list(zip(keys, owners, strict=True))
    for alias, parent in parents.items():
        shared = sorted(set(classes[alias]) & set(classes[parent])) if parent else []
        members.append(
            Member(
                alias,
                join.scans[alias].stream,
                filter=all_of(join.filters[alias]) if join.filters.get(alias) else None,
                parent=position[parent] if parent else None,
                join=tuple(KeyPart.of(classes[alias][at], types[at]) for at in shared),
                parent_join=tuple(KeyPart.of(classes[parent][at], types[at]) for at in shared) if parent else (),
                keys=tuple((at, key) for at, (key, owner) in enumerate(owned) if owner == alias),
            )
        )
    key_types = tuple(key.type for key in keys)
    return FactorizedAggregates(tuple(members), key_types, tuple(partials.listed), final, outputs)
