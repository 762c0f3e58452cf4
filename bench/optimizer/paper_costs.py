"""The cost models of the papers as they print them, each a small function of numbers.

CLASH: "Optimizing Multiple Multi-Way Stream Joins"; MultiStream: "Scaling Out Multi-Way Stream Joins using Optimized,
Iterative Probing"; MJoin: "Maximizing the Output Rate of Multi-Way Join Queries over Streaming Information Sources".
The optimizer's own cost is `problem.price`, which follows CLASH.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from watersmeet.optimize.operator_trees import OperatorTree

Selectivities = Mapping[frozenset[str], float]  # by pair of relations; 1 where there is no predicate


def probe_cost(intermediate: Sequence[float], broadcasts: Sequence[float] | None = None) -> float:
    """The cost of one probe order: the inner sum of CLASH, Eq. 1.

    `intermediate[j-1]` is the size of the join of the first j relations, of which 1/j has the start as the last to
    arrive; `broadcasts[j-1]` is χ of the store probed then. The whole result is not sent, so it is not listed."""
    copies = [1.0] * len(intermediate) if broadcasts is None else broadcasts
    return sum(size / joined * chi for joined, (size, chi) in enumerate(zip(intermediate, copies, strict=True), 1))


def join_size(relations: Iterable[str], sizes: Mapping[str, float], selectivities: Selectivities) -> float:
    """Sizes times the selectivities of all pairs: the estimate inside MultiStream, Eq. 2."""
    names = sorted(relations)
    pairs = (frozenset((one, other)) for at, one in enumerate(names) for other in names[at + 1 :])
    return prod(sizes[name] for name in names) * prod(selectivities.get(pair, 1.0) for pair in pairs)


def multistream_order_cost(
    order: Sequence[str], sizes: Mapping[str, float], selectivities: Selectivities, tasks: Mapping[str, float]
) -> float:
    """One probe order by MultiStream, Eq. 2: step j sends the join of the j-1 relations before it to N_j tasks.

    As printed, step j is weighed by 1/j; CLASH, two years later, weighs the same step by 1/(j-1)."""
    return sum(
        tasks[order[step - 1]] * join_size(order[: step - 1], sizes, selectivities) / step
        for step in range(2, len(order) + 1)
    )


def multistream_cost(
    orders: Iterable[Sequence[str]],
    sizes: Mapping[str, float],
    selectivities: Selectivities,
    tasks: Mapping[str, float],
) -> float:
    """An operator's probe cost, MultiStream, Eq. 2: one probe order for each of its inputs."""
    return sum(multistream_order_cost(order, sizes, selectivities, tasks) for order in orders)


def storage_cost(tree: OperatorTree, size: Callable[[tuple[str, ...]], float]) -> float:
    """MultiStream, Eq. 3: all relations and the results of all operators but the root."""
    return sum(size((relation,)) for relation in tree.relations) + sum(size(one.relations) for one in tree.inner)


def tree_probe_cost(tree: OperatorTree, operator_cost: Callable[[OperatorTree], float]) -> float:
    """MultiStream, Eq. 4: the sum over the root and all operators below."""
    return operator_cost(tree) + sum(operator_cost(one) for one in tree.inner)


@dataclass(frozen=True)
class Machine:
    """MJoin's costs of one operation on a tuple."""

    hash: float = 1.0
    move: float = 1.0
    comp: float = 1.0


def mjoin_output_rate(
    rates: Sequence[float], selectivities: Sequence[float], second: int, machine: Machine | None = None
) -> float:
    """MJoin, appendix A.1, Eq. 2: outputs of the given second over the time that its arrivals take.

    As printed, the arrivals of earlier seconds leave by Σ k^n. (What is left is the contribution of one second only for
    the first two; the difference of neighbouring powers would be it for all. We keep to the print.)"""
    machine = machine or Machine()
    powers = [float(past) ** len(rates) for past in range(1, second + 1)]
    outputs = prod(selectivities) * prod(rates) * (powers[-1] - sum(powers[:-1]))
    probes = 1 + prod(selectivities[:-1])
    return outputs / (sum(rates) * (machine.hash + machine.move + machine.comp * probes))


@dataclass(frozen=True)
class Part:
    """Inputs that would become an MJoin of their own: tuples of each, and the selectivities of predicates inside."""

    tuples: tuple[float, ...]
    selectivities: tuple[float, ...]

    @property
    def size(self) -> float:
        return prod(self.selectivities) * prod(self.tuples)

    @property
    def misses(self) -> float:
        return sum(1 - selectivity for selectivity in self.selectivities) * prod(self.tuples)


def cost_of_splitting(first: Part, second: Part, machine: Machine) -> float:
    """S(k, l) of MJoin, Eq. 3: both intermediate results are stored and probed."""
    return (first.size + second.size) * (machine.hash + machine.move + machine.comp)


def cost_of_discarding(first: Part, second: Part, machine: Machine) -> float:
    """D(k, l) of MJoin, Eq. 4: intermediate results that find no partner are computed and thrown away."""
    return (first.misses + second.misses) * machine.comp


def worth_splitting(first: Part, second: Part, machine: Machine | None = None) -> bool:
    """MJoin, appendix A.2: two smaller MJoins are better than one if D(k, l) > S(k, l)."""
    machine = machine or Machine()
    return cost_of_discarding(first, second, machine) > cost_of_splitting(first, second, machine)
