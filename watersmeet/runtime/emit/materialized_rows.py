"""The rows of materialized stores: complete combinations of their members are put together and stored.

Rows are collected until a phase ends, whatever the number of paths that make them. A task that has all of a tick to
itself holds them in memory for its later phases, and writes one bucket for each store at the end of the tick.
Otherwise other tasks may need them, and each phase writes its own.
"""

from __future__ import annotations

import pyarrow as pa

from watersmeet.home import layout
from watersmeet.model import KeyPart
from watersmeet.plan.ruleset import JoinStore, Ruleset
from watersmeet.runtime.emit.assemble import Assembly
from watersmeet.runtime.emit.new_buckets import BUCKET_BYTES, BUCKET_ROWS, NewBuckets
from watersmeet.runtime.probe.open_buckets import TickBuckets
from watersmeet.runtime.tick.orders import ProbeOrder, TaskReport
from watersmeet.store.bucket import Bucket, concatenated

_Of = tuple[str, str]  # a store, and by what its rows are told apart within the tick (BucketInfo.made_by)


class MaterializedRows:
    """What one task stores."""

    def __init__(self, order: ProbeOrder, task: str, report: TaskReport, in_memory: bool) -> None:
        """`in_memory`: no other task probes what this one stores before the tick has ended."""
        self._order = order
        self._task = task
        self._report = report
        self._in_memory = in_memory
        self._buckets = NewBuckets(order, f"{task}-{order.phase}")
        self._collected: dict[_Of, list[Bucket]] = {}
        self._held: dict[str, list[Bucket]] = {}  # by store, what is not written yet
        self._alike: dict[str, dict[str, str]] = {}

    def begin(self, order: ProbeOrder) -> None:
        """Begin another phase."""
        self._order = order

    def write(self, store: str, rows: Assembly, made_by: str) -> None:
        """`made_by` is the relation whose arrival completed the combinations."""
        if store not in self._alike:
            self._alike[store] = seen_alike(self._order.rules, store)
        of = store, "" if self._is_refill else self._alike[store][made_by]
        collected = self._collected.setdefault(of, [])
        collected.append(_put_together(self._order.rules.join_stores[store], rows))
        count, size = sum(map(len, collected)), sum(part.rows.nbytes for part in collected)
        if count >= BUCKET_ROWS or size >= BUCKET_BYTES:
            self._write(*of, concatenated(self._collected.pop(of)))

    def end_phase(self, stores: TickBuckets) -> None:
        """Let the next phase see the rows of this one."""
        for (store, made_by), parts in self._collected.items():
            rows = concatenated(parts)
            if self._in_memory and not self._is_refill:
                self._hold(store, made_by, rows, stores)
            else:
                self._write(store, made_by, rows)
        self._collected = {}

    def finish(self) -> None:
        """Write the rows in memory, whichever relations made them: after this tick that does not matter."""
        self._report.kept = [info for info in self._report.kept if info.bytes]
        for store, held in self._held.items():
            self._write(store, "", concatenated(held))
        self._held = {}

    @property
    def _is_refill(self) -> bool:
        """Whether the rows are combinations of rows that were stored before, nothing of this tick."""
        return self._order.phase == 0

    def _hold(self, store: str, made_by: str, rows: Bucket, stores: TickBuckets) -> None:
        self._held.setdefault(store, []).append(rows)
        name = f"{self._task}-memory-{self._order.phase}-{made_by}"
        file = layout.bucket_file(store, self._order.tick, self._order.attempt, name)
        tick = self._order.tick
        info = rows.info(file, 0, 0, store=store, first_tick=tick, last_tick=tick, made_by=made_by)
        stores.hold(info, rows)
        self._report.kept.append(info)

    def _write(self, store: str, made_by: str, rows: Bucket) -> None:
        tick = self._order.tick - 1 if self._is_refill else self._order.tick
        written = self._buckets.write(self._order.rules.store(store), rows, tick, made_by)
        self._report.kept += [info for _, info in written]


def seen_alike(rules: Ruleset, store: str) -> dict[str, str]:
    """For each relation of a store the first one whose rows of the running tick are seen by the same steps.

    Rows that every step either sees or does not see together need no buckets of their own."""
    steps = [step for step in rules.all_steps() if step.store == store]
    first: dict[frozenset[int], str] = {}
    found = {}
    for relation, _ in rules.join_stores[store].members:
        seen_by = frozenset(step.id for step in steps if relation in step.sees)
        found[relation] = first.setdefault(seen_by, relation)
    return found


def _put_together(rule: JoinStore, rows: Assembly) -> Bucket:
    plain = rows.columns(
        {
            member: [str(kept.source) for kept in rule.kept if kept.member == member and kept.kind == "column"]
            for member in range(len(rule.members))
        }
    )
    arrays = []
    for column, declared in zip(rule.kept, rule.columns, strict=True):
        if column.kind == "time":
            array = pa.array(rows.times(column.member))
        elif isinstance(column.source, str):
            array = plain[column.member, column.source].combine_chunks()
        elif column.kind == "filter":
            array = pa.array(rows.passes(column.member, column.source))
        else:
            array = rows.key(column.member, KeyPart(column.source, column.type))
            array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        arrays.append(array.cast(declared.arrow) if array.type != declared.arrow else array)
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in rule.columns])
    return Bucket(batch, rows.partial.latest, rows.partial.deadline)
