"""The rows of materialized stores: complete combinations of their members are put together and stored."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model import KeyPart
from watersmeet.plan.ruleset import StoreRule
from watersmeet.runtime.emit.assemble import Assembly
from watersmeet.runtime.emit.new_buckets import NewBuckets
from watersmeet.runtime.tick.orders import ProbeOrder, ProbeReport
from watersmeet.store.bucket import Bucket


class MaterializedRows:
    """What one task stores."""

    def __init__(self, order: ProbeOrder, task: str, report: ProbeReport) -> None:
        self.order = order
        self.report = report
        self._buckets = NewBuckets(order, f"{task}-{order.phase}")

    def write(self, store: str, rows: Assembly, made_by: str) -> None:
        """`made_by` is the relation whose arrival completed the combinations."""
        rule = self.order.rules.store(store)
        refill = self.order.phase == 0  # among rows that were stored before: nothing of this tick
        tick = self.order.tick - 1 if refill else self.order.tick
        written = self._buckets.write(rule, _put_together(rule, rows), tick, "" if refill else made_by)
        self.report.kept += [info for _, info in written]


def _put_together(rule: StoreRule, rows: Assembly) -> Bucket:
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
