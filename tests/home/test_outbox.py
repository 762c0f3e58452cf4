"""The outbox of a manifest: what waits, and for which target."""

from __future__ import annotations

from watersmeet.home.outbox import Lane, Parcel, Posted, posted, without
from watersmeet.model import Sink


def test_a_query_with_other_options_continues_its_lane() -> None:
    """Otherwise a later tick could be delivered before an earlier one, which the target would not take any more."""
    old, new, other = Sink("delta", "a", (("compact", "3"),)), Sink("delta", "a"), Sink("delta", "b")
    lanes = posted((), {"q": old}, [Posted("q", 5, "one", 10)], 1)
    lanes = posted(lanes, {"q": other}, [Posted("q", 1, "two", 10)], 2)
    lanes = posted(lanes, {"q": new, "r": new}, [Posted("q", 2, "three", 10), Posted("r", 1, "four", 10)], 3)
    assert set(lanes) == {
        Lane("q", new, (Parcel(1, 5, ("one",), (10,)), Parcel(3, 2, ("three",), (10,)))),
        Lane("q", other, (Parcel(2, 1, ("two",), (10,)),)),
        Lane("r", new, (Parcel(3, 1, ("four",), (10,)),)),
    }
    left, files = without(lanes, {("q", new): 1, ("q", other): 2})
    assert sorted(files) == ["one", "two"]
    assert {(lane.name, lane.parcels) for lane in left} == {
        (("q", new), (Parcel(3, 2, ("three",), (10,)),)),
        (("r", new), (Parcel(3, 1, ("four",), (10,)),)),
    }
