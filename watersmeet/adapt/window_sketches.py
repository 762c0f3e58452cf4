"""Sketches of the rows that were in the windows before an epoch began.

The sketches of an epoch alone tell of pairs of its own rows. Where partners arrive at about the same time, such pairs
join far more often than a new row and one of the whole window do, and it is the window that a step probes. Therefore
the sketches of the last epochs are kept, as many as the windows have rows. After a restart, or for a key that is new,
they begin empty: then nothing is known of older rows, and they count as neither looked at nor found.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from watersmeet.model import KeyPart
from watersmeet.store.sketch import Sketch

Sketches = Mapping[tuple[str, KeyPart], Sketch]  # by stream and key
PIECES = 16  # epochs that are told apart; before them, the two oldest become one


class WindowSketches:
    def __init__(self) -> None:
        self._pieces: dict[tuple[str, KeyPart], tuple[Sketch, ...]] = {}  # the oldest first

    def all(self) -> dict[tuple[str, KeyPart], Sketch]:
        return {name: reduce(Sketch.merged, pieces) for name, pieces in self._pieces.items() if pieces}

    def add(self, epoch: Sketches, live: Mapping[str, float]) -> None:
        """Add an epoch's rows; only as many of the newest rows of each stream stay as its window has."""
        self._pieces = {
            name: _newest((*self._pieces.get(name, ()), *([epoch[name]] if name in epoch else ())), live[name[0]])
            for name in {**epoch, **self._pieces}
            if name[0] in live
        }


def _newest(pieces: tuple[Sketch, ...], rows: float) -> tuple[Sketch, ...]:
    kept: list[Sketch] = []
    for piece in reversed(pieces):
        if rows < 1:
            break
        kept.append(piece if piece.rows <= rows else piece.scaled(rows / piece.rows))
        rows -= piece.rows
    kept.reverse()
    while len(kept) > PIECES:
        kept[:2] = [kept[0].merged(kept[1])]
    return tuple(kept)
