"""The papers' cost models on the papers' own examples."""

from __future__ import annotations

import pytest

from bench.optimizer.paper_costs import (
    Machine,
    Part,
    cost_of_discarding,
    cost_of_splitting,
    join_size,
    mjoin_output_rate,
    multistream_cost,
    multistream_order_cost,
    probe_cost,
    storage_cost,
    tree_probe_cost,
    worth_splitting,
)
from watersmeet.optimize.operator_trees import OperatorTree


def test_probe_cost_weighs_each_step_by_the_share_in_which_the_start_is_last() -> None:
    assert probe_cost([100, 100]) == 150
    assert probe_cost([100, 150]) == 175
    assert probe_cost([100, 150], [1, 5]) == 100 + 75 * 5


SIZES = {"r": 100.0, "s": 200.0, "t": 50.0}
SELECTIVITIES = {frozenset("rs"): 0.01, frozenset("st"): 0.1}


def test_join_sizes_multiply_all_pairs() -> None:
    assert join_size("rs", SIZES, SELECTIVITIES) == pytest.approx(200)
    assert join_size("rt", SIZES, SELECTIVITIES) == pytest.approx(5000)  # no predicate
    assert join_size("rst", SIZES, SELECTIVITIES) == pytest.approx(1000)


def test_multistream_sends_every_step_to_all_tasks_of_the_store() -> None:
    tasks = {"r": 2.0, "s": 3.0, "t": 4.0}
    order = multistream_order_cost("rst", SIZES, SELECTIVITIES, tasks)
    assert order == pytest.approx(3 * 100 / 2 + 4 * 200 / 3)
    other = multistream_order_cost("tsr", SIZES, SELECTIVITIES, tasks)
    assert multistream_cost(["rst", "tsr"], SIZES, SELECTIVITIES, tasks) == pytest.approx(order + other)


def test_a_tree_stores_inner_results_and_not_the_root() -> None:
    tree = OperatorTree(("r", OperatorTree(("s", "t"))))

    def size(some: tuple[str, ...]) -> float:
        return join_size(some, SIZES, SELECTIVITIES)

    assert storage_cost(tree, size) == pytest.approx(100 + 200 + 50 + 1000)
    assert storage_cost(OperatorTree(("r", "s", "t")), size) == pytest.approx(350)
    assert tree_probe_cost(tree, lambda operator: float(len(operator.children))) == 4
    assert str(tree) == "(r (s t))"


def test_mjoin_output_rate() -> None:
    machine = Machine(hash=1, move=2, comp=3)
    # The first second: σ1·σ2·r1·r2·r3 outputs; each arrival hashes, moves, and probes once and with σ1 again.
    first = mjoin_output_rate([10, 20, 30], [0.1, 0.5], 1, machine)
    assert first == pytest.approx(0.05 * 6000 / (60 * (1 + 2 + 3 * 1.1)))
    second = mjoin_output_rate([10, 20, 30], [0.1, 0.5], 2, machine)
    assert second == pytest.approx(first * (2**3 - 1))
    assert mjoin_output_rate([10, 20, 30], [0.1, 0.5], 3, machine) == pytest.approx(first * (27 - 8 - 1))


def test_mjoin_is_split_where_little_is_stored_and_much_discarded() -> None:
    selective, loose = Part((100, 100), (0.001,)), Part((100, 100), (0.9,))
    machine = Machine()
    assert cost_of_splitting(selective, selective, machine) == pytest.approx((10 + 10) * 3)
    assert cost_of_discarding(selective, selective, machine) == pytest.approx(2 * 0.999 * 10_000)
    assert worth_splitting(selective, selective)
    assert not worth_splitting(loose, loose)
