"""A request to take files after all that were set aside: a file in the home, which the next look of the feed finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.files import advice_in, write_whole
from watersmeet.io.folder_source import taken_files
from watersmeet.io.positions import load_positions
from watersmeet.runtime.feed.stream_groups import StreamGroups


def request_retry(home: Path, streams: Sequence[str] = ()) -> dict[str, list[str]]:
    """Request it for these streams, or for all; returns the names of the files, by stream.

    Only files of which the positions say that they were not read are taken, so none is read twice."""
    groups = StreamGroups(home).members()
    known = {stream: group for group, members in groups.items() for stream in members}
    for stream in streams:
        if stream not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise StateError(f"there is no stream {stream} in {home}", detail=f"Streams: {listed}.")
    found: dict[str, list[str]] = {}
    for stream in streams or known:
        if layout.checkpoint(home, known[stream]).exists():
            if stream in streams and any(advice_in(layout.rejected_files(home, stream))):
                raise StateError(
                    f"the files of stream {stream} are read by Spark, which takes each name once",
                    hint="copy the files that were set aside to other names in the stream's folder",
                )
            continue
        log = load_positions(home, known[stream], to_write=False)
        names = sorted(taken_files(log.histories[stream]).aside) if stream in log.histories else []
        if names:
            write_whole(layout.retry_request(home, stream), "")
            found[stream] = names
    return found
