"""What tests ask of sketches of keys."""

from __future__ import annotations

from watersmeet.store.sketch import KEYS, Sketch


def validate(made: Sketch) -> None:
    """The invariants of a sketch."""
    assert len(made.hashes) == len(made.counts) <= KEYS
    assert bool((made.hashes[1:] > made.hashes[:-1]).all()), "hashes do not rise"
    assert not len(made.hashes) or float(made.hashes[-1]) <= made.threshold, "a key beyond the threshold"
    assert bool((made.counts > 0).all()) and float(made.counts.sum()) <= made.rows * (1 + 1e-9)


def join_size(one: Sketch, other: Sketch) -> float:
    """How many pairs with equal keys all rows of two sketches should have."""
    joined = one.joined(other)
    return joined.found / joined.share if joined.pairs else 0.0
