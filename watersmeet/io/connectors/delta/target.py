"""INTO delta: the results of a tick are one commit of the table, with its application transaction: home, query, tick.

Before it writes, a commit compares its tick with the transaction in the version of the table that it builds on. Delta
rejects a commit if another one with the same application has come since that version. So of two processes that
write the same tick, one that was cut off and is not dead yet and one that replaces it, one succeeds.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError, SchemaMismatchError, TableNotFoundError

from watersmeet import points
from watersmeet.errors import RunError
from watersmeet.home.disk import sync
from watersmeet.io.connectors.delta.log import commit_file, read_commit, stamp_of
from watersmeet.io.connectors.delta.schema import delta_types, differences, table_types
from watersmeet.io.connectors.delta.settings import DeltaSettings
from watersmeet.io.connectors.protocol import Sender, Undeliverable

_log = logging.getLogger("watersmeet")


class DeltaTarget:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._settings = DeltaSettings.of(sender.query, sender.sink, sender.schema.names)
        self._path = Path(sender.sink.path or "")
        self._application = f"watersmeet-{sender.home}-{sender.query}"
        with _explained():
            self._table = self._opened()
        self._stamp = self._stamped()
        self._schema = self._checked()

    def recover(self) -> int:
        return self._table.transaction_version(self._application) or 0

    def commit(self, tick: int, rows: Iterator[pa.RecordBatch]) -> None:
        with _explained():
            self._check_identity()
            self._table.update_incremental()
            self._stamp = self._stamped()  # also if nothing is added: another writer may have added a version
            if self.recover() >= tick:
                return
            before = self._table.version()
            write_deltalake(
                self._table,
                pa.RecordBatchReader.from_batches(self._schema, self._arranged(rows)),
                mode="append",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(self._application, tick)],
                    custom_metadata={"query": self._sender.query, "tick": str(tick)},
                ),
            )
            self._make_durable(before, self._table.version())
        self._compact_sometimes(before)
        self._stamp = self._stamped()

    def close(self) -> None:
        pass

    def _opened(self) -> DeltaTable:
        with contextlib.suppress(TableNotFoundError):
            return DeltaTable(self._path)
        schema = Schema.from_arrow(self._sender.schema)
        partitions = list(self._settings.partition_by) or None
        DeltaTable.create(self._path, schema, mode="ignore", partition_by=partitions)
        return DeltaTable(self._path)

    def _stamped(self) -> tuple[int, int] | None:
        return stamp_of(self._path, self._table.version())

    def _check_identity(self) -> None:
        """Before anything is added to the versions that are known: the table is still the one that has them."""
        if self._stamp != self._stamped():
            raise RunError(f"the Delta table {self._path} was replaced by another one")

    def _checked(self) -> pa.Schema:
        """The columns of results in the order and with the names that the table has."""
        table = table_types(self._table.schema().to_json())
        if reasons := differences(delta_types(self._sender.schema), table):
            raise Undeliverable(
                f"the Delta table {self._path} cannot take the results of query {self._sender.query}: "
                + "; ".join(reasons),
                hint="change the query, or name another table after INTO",
            )
        types = {field.name.lower(): field.type for field in self._sender.schema}
        return pa.schema([(name, types[name.lower()]) for name in table])

    def _arranged(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = dict(zip((name.lower() for name in batch.schema.names), batch.columns, strict=True))
            arranged = [columns[name.lower()] for name in self._schema.names]
            yield pa.RecordBatch.from_arrays(arranged, schema=self._schema)
        points.reach("target.written")

    def _make_durable(self, before: int, now: int) -> None:
        """The outbox forgets this tick once it is committed, so a power cut must not take it from the table."""
        for version in range(before + 1, now + 1):
            commit = read_commit(self._path, version)
            for file in commit.files if commit else ():
                _sync(self._path / file.path)
                _sync((self._path / file.path).parent)
            _sync(commit_file(self._path, version))
        _sync(commit_file(self._path, now).parent)

    def _compact_sometimes(self, before: int) -> None:
        """Once in a number of versions. It changes no rows, so whatever fails is not a failure of the tick."""
        every = self._settings.compact
        if not every or before // every == self._table.version() // every:
            return
        points.reach("target.compact")
        try:
            self._table.optimize.compact(max_concurrent_tasks=1)
            if self._settings.vacuum_hours:
                self._table.vacuum(self._settings.vacuum_hours, dry_run=False, enforce_retention_duration=False)
        except Exception as problem:
            _log.warning("the Delta table %s was not compacted: %s", self._path, problem)


def _sync(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process has compacted and vacuumed it
        sync(path)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (SchemaMismatchError, DeltaProtocolError) as problem:
        raise Undeliverable(f"Delta rejects the results: {problem}") from None
    except (DeltaError, OSError) as problem:
        raise RunError(f"Delta: {problem}") from None
