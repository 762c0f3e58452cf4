"""All files of a Delta table at a version, the oldest first."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from watersmeet.errors import InputError
from watersmeet.io.connectors.delta.log import DataFile

_PARTITION = "partition."


def files_of(stream: str, root: Path, version: int) -> tuple[DataFile, ...]:
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
