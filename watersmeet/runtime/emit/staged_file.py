"""A file of a tick that users may read: staged while it is written, published by a rename after the commit."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pyarrow as pa

from watersmeet.home import layout
from watersmeet.home.manifest import ResultFile
from watersmeet.io.sinks import open_writer
from watersmeet.model import Sink


class StagedFile:
    def __init__(self, folder: Path, name: str, sink: Sink, schema: pa.Schema) -> None:
        self.staged = layout.staged(folder, name)
        self._final = f"{folder}{os.sep}{name}"
        self._rows = 0
        self._writer = open_writer(self.staged, sink, schema)

    def write(self, rows: pa.Table) -> None:
        self._writer.write(rows)
        self._rows += rows.num_rows

    def discard(self) -> None:
        """Give up a file that could not be written."""
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(OSError):
            self.staged.unlink(missing_ok=True)

    def close(self, query: str) -> ResultFile:
        """Finish the file, and say what the manifest must know to publish it."""
        self._writer.close()
        return ResultFile(query, str(self.staged), self._final, self._rows, os.path.getsize(self.staged))
