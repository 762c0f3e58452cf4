"""The log of a Delta table: which files each version added, and what else it changed.

Version n is the file `_delta_log/<n>.json`, with an action per line. Old versions may be gone: they are in checkpoints
only, which say what the table has and not what each version added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from watersmeet.errors import InputError

LOG = "_delta_log"
_PARTITION = "partition."
_VERSION = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class DataFile:
    """A file with rows of a table, as its log has it."""

    path: str  # relative to the table
    bytes: int
    rows: int | None  # None: the log does not say
    partition: tuple[tuple[str, str | None], ...] = ()  # values of the columns that the file does not have
    is_filtered: bool = False  # a deletion vector says which of its rows are deleted


@dataclass(frozen=True)
class Commit:
    """A version of a table: what it adds and changes."""

    version: int
    files: tuple[DataFile, ...] = ()  # that have new rows
    changes: str = ""  # what it does to rows that the table had before, if it does
    table: str = ""  # the id of the table, if the version says it: the first one, and after a change of columns
    schema: str = ""  # with it
    properties: tuple[tuple[str, str], ...] = ()  # with it
    features: tuple[str, ...] = ()  # that a reader must know, if the version says it


def commit_file(root: Path, version: int) -> Path:
    return root / LOG / f"{version:020d}.json"


def stamp_of(root: Path, version: int) -> tuple[int, int] | None:
    """What tells the file of a version from one of another table in the same folder; None if there is none."""
    try:
        found = commit_file(root, version).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def versions(root: Path) -> tuple[int, int] | None:
    """The oldest and the newest version of which the log has a file."""
    found = [int(name[1]) for path in (root / LOG).glob("*.json") if (name := _VERSION.fullmatch(path.name))]
    return (min(found), max(found)) if found else None


def read_commit(root: Path, version: int) -> Commit | None:
    try:
        lines = commit_file(root, version).read_text().splitlines()
    except FileNotFoundError:
        return None
    return commit_of(version, [json.loads(line) for line in lines if line.strip()])


def commit_of(version: int, actions: list[Mapping[str, Any]]) -> Commit:
    files, removed = [], 0
    table = schema = ""
    properties: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()
    operation = "it"
    for action in actions:
        if (add := action.get("add")) and add.get("dataChange", True):
            files.append(_file(add))
        elif (remove := action.get("remove")) and remove.get("dataChange", True):
            removed += 1
        elif info := action.get("commitInfo"):
            operation = str(info.get("operation") or operation)
        elif metadata := action.get("metaData"):
            table, schema = str(metadata["id"]), str(metadata["schemaString"])
            properties = tuple((metadata.get("configuration") or {}).items())
        elif protocol := action.get("protocol"):
            features = tuple(protocol.get("readerFeatures") or ())
    changes = f"{operation} removes or rewrites {removed} file{'s' * (removed != 1)} with rows" if removed else ""
    return Commit(version, tuple(files), changes, table=table, schema=schema, properties=properties, features=features)


def _file(add: Mapping[str, Any]) -> DataFile:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    rows = stats.get("numRecords")
    values = add.get("partitionValues") or {}
    return DataFile(
        unquote(add["path"]),
        int(add["size"]),
        int(rows) if rows is not None else None,
        tuple((str(name), value) for name, value in values.items()),
        add.get("deletionVector") is not None,
    )


def files_at(stream: str, root: Path, version: int) -> tuple[DataFile, ...]:
    """All files of the table at a version, the oldest first."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(root, version=version)
        if len(pa.table(table.deletion_vectors())):
            raise InputError(
                f"stream {stream}: the Delta table {root} has files with deletion vectors",
                detail="Which of their rows are deleted is not in the files themselves.",
                hint="rewrite the table (REORG TABLE … APPLY (PURGE)), or begin with startingVersion = 'latest'",
            )
        found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except DeltaError as problem:
        raise InputError(
            f"stream {stream}: version {version} of the Delta table {root} cannot be opened any more",
            detail=str(problem).splitlines()[0],
            hint="restore the log of the table, or read it with another --home",
        ) from None
    found.sort(key=lambda file: (file["modification_time"], file["path"]))
    return tuple(
        DataFile(
            unquote(file["path"]),
            file["size_bytes"],
            file.get("num_records"),
            tuple(
                (name.removeprefix(_PARTITION), None if value is None else _text(value))
                for name, value in file.items()
                if name.startswith(_PARTITION)
            ),
        )
        for file in found
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
