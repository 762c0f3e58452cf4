"""Files that tasks unpickle: one that somebody else has written or moved is rejected, and not unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.workload import make_case
from tests.support.in_process import InProcess
from watersmeet.errors import StateError
from watersmeet.runtime.exec.plan_files import PlanFiles, PlansRead
from watersmeet.runtime.feed.batches import sealed, unsealed

KEY = bytes(range(32))


class Attack:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def test_a_plan_that_was_replaced_is_not_unpickled(tmp_path: Path) -> None:
    process = InProcess(tmp_path / "home", make_case(1))
    files = PlanFiles(tmp_path / "home", "run")
    files.write(process.plan)
    packed = files.pack(process.plan.rules)
    assert PlansRead().unpack(packed) == process.plan.rules
    (plan,) = (tmp_path / "home" / "orders").rglob("*.plan")
    plan.write_bytes(pickle.dumps(Attack(tmp_path / "owned")))
    with pytest.raises(StateError, match="not the one that the engine wrote") as caught:
        PlansRead().unpack(packed)
    assert str(plan) in caught.value.problem
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("forged", ["bare", "other key", "short", "empty", "moved", "changed"])
def test_an_order_that_was_replaced_is_rejected(tmp_path: Path, forged: str) -> None:
    path = tmp_path / "7.pickle"
    path.write_bytes(sealed(KEY, path, b"packed order"))
    assert unsealed(KEY, path) == b"packed order"
    attack = pickle.dumps(Attack(tmp_path / "owned"))
    contents = {
        "bare": attack,
        "other key": sealed(bytes(32), path, attack),
        "short": attack[:10],
        "empty": b"",
        "moved": sealed(KEY, path.with_name("6.pickle"), b"packed order"),  # of another batch
        "changed": sealed(KEY, path, b"packed order")[:-1] + b"?",
    }
    path.write_bytes(contents[forged])
    with pytest.raises(StateError, match="was not written by this engine"):
        unsealed(KEY, path)
