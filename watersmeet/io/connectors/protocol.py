"""The protocol of sinks outside of the home: prepare, commit, recover.

    prepare   in the tasks of a tick: results become Parquet files in the outbox of the home. It is the same for all
              targets (`runtime/emit/`), and the manifest that commits the tick names the files.
    commit    after the manifest: `Target.commit` writes the rows of a tick, and that it has this tick, in one
              transaction of the target.
    recover   when a target is opened, at a start or after a task has died: `Target.recover` ends what an earlier
              process has left undone, and returns the newest tick that the target has. Later ones are committed then.

For files, the staged file is the result, commit is a rename and recover renames what was not (`home/recovery.py`).

Whatever raises is tried again after a pause, except `Undeliverable`: it suspends the query with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.model import Output, Sink
from watersmeet.model.targets import targets


class Undeliverable(RunError):
    """Results cannot be delivered, and no other try would succeed."""


@dataclass(frozen=True)
class Sender:
    """Whose results a target gets. A target remembers the newest tick by `home` and `query`."""

    home: str  # the tag of the home, which no other home has
    query: str
    sink: Sink
    schema: pa.Schema


class Target(Protocol):
    """The far end for one query, opened in a task. One task at a time uses it, unless one is cut off and not dead yet:
    then what it does must fail, or change nothing."""

    def recover(self) -> int:
        """The newest tick that the target has, 0 if it has none. Called once, before any commit."""

    def commit(self, tick: int, rows: Iterator[pa.RecordBatch]) -> None:
        """Write all of these rows and the number of the tick, or nothing, durably."""

    def close(self) -> None:
        """Free what is held; nothing is lost if it is not called."""


class Connector(Protocol):
    """What a kind of target is known by: it checks and opens targets."""

    def check(self, query: str, sink: Sink, outputs: tuple[Output, ...]) -> None:
        """Reject, with a ModelError, what could not be delivered. Connects to nothing."""

    def open(self, sender: Sender) -> Target:
        """Connect to the target, in a task."""


def connector_of(sink: Sink) -> Connector:
    module, _, attribute = targets()[sink.format].partition(":")
    found: Connector = getattr(importlib.import_module(module), attribute)
    return found


def shown(sink: Sink) -> str:
    """A target in the words of INTO."""
    return f"{sink.format} '{sink.path}'" if sink.path else sink.format
