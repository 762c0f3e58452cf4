"""The three streams, R ⋈ S ⋈ T: also read in Flink's environment, which has no other packages of ours."""

from __future__ import annotations

STREAMS = {"r": ("a",), "s": ("a", "b"), "t": ("b", "c")}  # columns besides ts and id
RESULT = ("r", "s", "t", "c")
WINDOW = 10  # seconds
PAIRS = (("r", "s"), ("s", "t"), ("r", "t"))  # of streams whose event times are compared
