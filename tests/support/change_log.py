"""The log of changes as tests look at it."""

from __future__ import annotations

from pathlib import Path

from watersmeet.control.change_log import LoggedChange, read_entries


def requested(home: Path) -> list[LoggedChange]:
    """The changes that were requested, without what starts have found in the pipeline."""
    return [entry for entry in read_entries(home) if not entry.declared]
