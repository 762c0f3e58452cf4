"""Batches of files that a test has written, of which every task gets a file of each stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watersmeet.io.folder_source import set_aside
from watersmeet.io.folders import FilePiece
from watersmeet.io.source import LeftOut
from watersmeet.model import Stream
from watersmeet.runtime.feed.batches import PieceBatch, Rejected
from watersmeet.runtime.tick.orders import GatherOrder


@dataclass(eq=False)
class SplitBatch(PieceBatch):
    def shared_out(self, order: GatherOrder, tasks: int) -> GatherOrder:
        pieces = list(self.pieces(tasks).values())
        longest = max(map(len, pieces), default=0)
        work = [tuple(some[at] for some in pieces if at < len(some)) for at in range(longest)]
        return replace(order, streams=self.streams, work=tuple(work))


def split_batch(
    group: str, number: int, streams: Sequence[Stream], files: Mapping[str, Sequence[str]], home: Path
) -> SplitBatch:
    """`files` are paths by stream."""
    pieces = {stream: [FilePiece(stream, path, 0) for path in paths] for stream, paths in files.items()}

    def finish(rejected: Rejected, rows: Counter[str]) -> dict[str, list[LeftOut]]:
        return {stream: set_aside(some) for stream, some in rejected.items()}

    return SplitBatch(group, number, tuple(streams), home, lambda tasks: pieces, finish, bytes=0)
