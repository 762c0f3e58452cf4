"""The outbox of a manifest: what waits, and for which target."""

from __future__ import annotations

from watersmeet.home.outbox import Lane, Parcel, posted, without
from watersmeet.model import Sink


def test_a_query_with_other_options_continues_its_lane() -> None:
    """Otherwise a later tick could be delivered before an earlier one, which the target would not take any more."""
    old, new, other = Sink("delta", "a", (("compact", "3"),)), Sink("delta", "a"), Sink("delta", "b")
    lanes = posted((), {"q": old}, [("q", 5, "one")], 1)
    lanes = posted(lanes, {"q": other}, [("q", 1, "two")], 2)
    lanes = posted(lanes, {"q": new, "r": new}, [("q", 2, "three"), ("r", 1, "four")], 3)
    assert set(lanes) == {
        Lane("q", new, (Parcel(1, 5, ("one",)), Parcel(3, 2, ("three",)))),
        Lane("q", other, (Parcel(2, 1, ("two",)),)),
        Lane("r", new, (Parcel(3, 1, ("four",)),)),
    }
    left, files = without(lanes, {("q", new): 1, ("q", other): 2})
    assert sorted(files) == ["one", "two"]
    assert {(lane.name, lane.parcels) for lane in left} == {
        (("q", new), (Parcel(3, 2, ("three",)),)),
        (("r", new), (Parcel(3, 1, ("four",)),)),
    }
