"""Groups of streams that share a streaming query. Stored, as Spark's offsets belong to a fixed list of sources."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError, restore_hint
from watersmeet.home import layout
from watersmeet.home.sealed import read_sealed, write_sealed
from watersmeet.io.source import source_formats
from watersmeet.model import Stream


class StreamGroups:
    """`groups.json` in the home: for each group its streams, in order, with the columns that the state has."""

    def __init__(self, home: Path) -> None:
        self._path = home / layout.GROUPS
        try:
            self._groups: dict[str, dict[str, Any]] = read_sealed(self._path) if self._path.exists() else {}
        except ValueError as problem:
            raise StateError(
                f"{self._path} is damaged: {problem}",
                detail="It lists the streams that the positions in the sources belong to. Nothing was changed.",
                hint=restore_hint("it"),
            ) from None

    def members(self) -> dict[str, list[str]]:
        return {group: list(streams) for group, streams in self._groups.items()}

    def join(self, streams: Iterable[Stream]) -> None:
        """Give streams that are new to this home a group of their own; reject a change of the others."""
        declared = {stream.name: stream for stream in streams}
        known = {name: shape for members in self._groups.values() for name, shape in members.items()}
        for name, shape in known.items():
            if name not in declared:
                raise StateError(
                    f"stream {name} is part of this home but is no longer declared",
                    hint="declare it again (a stream without queries costs little), or use another --home",
                )
            if _shape(declared[name]) != shape:
                raise StateError(
                    f"stream {name} is declared differently than in this home",
                    detail=f"In the home: {shape}. Now: {_shape(declared[name])}.",
                    hint="declare it as before, choose another name, or use another --home",
                )
        fresh = {name: _shape(stream) for name, stream in declared.items() if name not in known}
        # A feed has sources of one kind; folders and what Spark reads begin as one group.
        kinds = {name: stream.source.format if stream.source else "" for name, stream in declared.items()}
        for kind in ("", *source_formats()):
            group = {
                n: shape for n, shape in fresh.items() if (kinds[n] if kinds[n] in source_formats() else "") == kind
            }
            if not group:
                continue
            self._groups[str(len(self._groups))] = group
            write_sealed(self._path, self._groups)


def _shape(stream: Stream) -> dict[str, Any]:
    return {"time": stream.time, "columns": [[column.name, column.type] for column in stream.columns]}
