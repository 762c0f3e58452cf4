"""Columns that Spark computes: a job whose tasks read a bucket each, let Spark compute, and write the bucket again.

    bucket ─(Python: what Spark needs of each row)─► Spark's own expressions ─(Python: writes a bucket)─► report

All three parts of a task are one stage, in the order of the rows, without an exchange. Expressions are built with
Spark's API from checked calls: no text of a user is parsed by Spark. The session is one of its own, with the settings
under which expressions mean what docs/semantics.md says. A block of rows has the time of an expression.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError, WatersmeetError
from watersmeet.home import layout
from watersmeet.home.manifest import BucketInfo
from watersmeet.home.signs import computes, engine_stops, has_computed
from watersmeet.model import HIDDEN, SparkCall
from watersmeet.model.expression import ColumnRef, Expression, Literal
from watersmeet.model.spark_call import FunctionCall, is_constant
from watersmeet.model.types import arrow_type, outside
from watersmeet.runtime.exec.call_steps import F64, STEPS_A_SECOND, blocks, steps_of
from watersmeet.runtime.exec.jobs import collected, concerns_all, reason_of_spark, task_context, task_name
from watersmeet.runtime.exec.limited_job import LimitedJob
from watersmeet.runtime.exec.on_disk import on_disk
from watersmeet.runtime.exec.worker import Worker, as_failure, worker_of
from watersmeet.runtime.gather import Gather
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.computation import ComputeOrder, ComputeReport
from watersmeet.runtime.tick.orders import GatherReport
from watersmeet.spark_settings import MEANINGS
from watersmeet.sql.spark_types import nested
from watersmeet.store.bucket import Bucket
from watersmeet.store.evaluate import evaluate
from watersmeet.store.guard import ExpressionError
from watersmeet.store.merge import without_unused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SETTINGS = {
    **{name: allowed[0] for name, allowed in MEANINGS.items()},
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.adaptive.enabled": "false",
    # It computes (x + y) + 2 for (2 + x) + y, which may overflow where what is written does not.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ReorderAssociativeOperator",
}
SLICE = 8192  # rows that are handed over at a time
_ROW, _FAILURE = "row", "failure"
_REPORT_SCHEMA = "report binary"

_OPERATORS: dict[str, Callable[..., Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
Batches = Iterable[pa.RecordBatch]
End = Callable[[Worker, ComputeOrder, BucketInfo, list[pa.RecordBatch], str], ComputeReport | None]


class SparkColumns:
    """Has columns computed, in a Spark session of its own."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._spark, self._run = spark, run
        self._own: SparkSession | None = None

    def compute(self, order: ComputeOrder, packed: Callable[[ComputeOrder], bytes]) -> list[ComputeReport]:
        try:
            return self._collect(order, packed(order), order.rules.limits.expression_seconds)
        except Exception as problem:
            if concerns_all(problem):
                raise
            failed = self._culprits(order, packed)
            if not failed:  # each ends in its time, so all of them end
                return self._collect(order, packed(order), 0)
            raise ExpressionError.of(failed) from problem

    def _culprits(self, order: ComputeOrder, packed: Callable[[ComputeOrder], bytes]) -> dict[str, str]:
        """The columns of which Spark cannot compute one alone, and why."""
        failed = {}
        for column in order.columns:
            alone = ComputeOrder(order.gather, order.store, order.buckets, (column,))
            try:
                self._job(alone, packed(alone), _passing, order.rules.limits.expression_seconds)
            except Exception as problem:
                if concerns_all(problem):
                    raise
                failed[column.shown] = reason_of_spark(problem)
        return failed

    def _collect(self, order: ComputeOrder, packed: bytes, seconds: float) -> list[ComputeReport]:
        return [pickle.loads(row.report) for row in self._job(order, packed, _written, seconds)]

    def _job(self, order: ComputeOrder, packed: bytes, end: End, seconds: float) -> list[Any]:
        """A job whose tasks end with what `end` makes of the columns. `seconds` are for a block of rows."""
        job = LimitedJob(self._spark.sparkContext, Path(order.gather.home), seconds)
        found = self._computed(order, packed, job.name).mapInArrow(
            _ending(packed, self._run, job.name, end), _REPORT_SCHEMA
        )
        return job.run(lambda: collected(found, lambda: job.is_given_up))

    def _computed(self, order: ComputeOrder, packed: bytes, job: str) -> DataFrame:
        """For each row of each bucket its number and the columns; a partition has the rows of one bucket."""
        from pyspark.sql import functions

        tasks = len(order.buckets)
        names = {given: f"c{at}" for at, given in enumerate(inputs_of(order))}
        schema = ", ".join(
            (f"{_ROW} bigint, {_FAILURE} binary", *(f"{name} {given.type}" for given, name in names.items()))
        )
        rows = self._session.range(0, tasks, 1, tasks).mapInArrow(_reading(packed, self._run, job), schema)
        columns = [_column(column.call, names).alias(f"v{at}") for at, column in enumerate(order.columns)]
        return rows.select(functions.col(_ROW), functions.col(_FAILURE), *columns)

    @property
    def _session(self) -> SparkSession:
        if self._own is None:
            self._own = self._spark.newSession()
            for name, value in SETTINGS.items():
                self._own.conf.set(name, value)
        return self._own


def inputs_of(order: ComputeOrder) -> list[Expression]:
    """What tasks compute of each row for Spark, each once."""
    return list(dict.fromkeys(given for column in order.columns for given in column.call.inputs()))


def _column(argument: FunctionCall | Expression, names: dict[Expression, str]) -> Column:
    from pyspark.sql import functions

    if isinstance(argument, Literal) and is_constant(argument):
        return _literal(argument)
    if not isinstance(argument, FunctionCall):
        return functions.col(names[argument])
    given = [_column(each, names) for each in argument.arguments]
    if argument.function == "cast":
        return given[0].cast(argument.type)
    if argument.function in _OPERATORS:
        made: Column = _OPERATORS[argument.function](*given)
        return made
    return functions.call_function(argument.function, *given)


def _literal(constant: Literal) -> Column:
    """A constant of exactly its type: Spark gives some functions another type where a constant is cast."""
    from pyspark.sql import functions

    value, made = constant.value, functions.lit(constant.value)
    if isinstance(value, bool | str):
        return made
    if isinstance(value, Decimal):
        parts = value.as_tuple()
        natural = f"decimal({max(len(parts.digits), -int(parts.exponent))},{-int(parts.exponent)})"
    elif isinstance(value, int):
        natural = "int" if -(1 << 31) <= value < 1 << 31 else "bigint"
    else:
        natural = "double"
    return made if natural == constant.type else made.cast(constant.type)


# In tasks ----------------------------------------------------------------------------------------


def _reading(packed: bytes, run: str, job: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        worker = worker_of(run)
        order: ComputeOrder = worker.plans.unpack(packed)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _inputs(worker, order, number, job)

    return read


def _inputs(worker: Worker, order: ComputeOrder, number: int, job: str) -> Iterator[pa.RecordBatch]:
    given = inputs_of(order)
    fields = [pa.field(f"c{at}", spark_arrow(each.type)) for at, each in enumerate(given)]
    schema = pa.schema([pa.field(_ROW, pa.int64()), pa.field(_FAILURE, pa.binary()), *fields])
    home = Path(order.gather.home)

    def failed(problem: WatersmeetError) -> pa.RecordBatch:
        """A row that carries a failure to the report."""
        failure = pa.array([pickle.dumps(problem)], pa.binary())
        return pa.record_batch([pa.array([0]), failure, *(pa.nulls(1, each.type) for each in fields)], schema=schema)

    try:
        with worker.limited(order):
            rows = Bucket.open(home, order.buckets[number]).rows
            made = iter(_evaluated(rows, [each.text for each in given if not isinstance(each, ColumnRef)]))
            found = [rows.column(each.name) if isinstance(each, ColumnRef) else next(made) for each in given]
            arrays = [array.cast(field.type) for array, field in zip(found, fields, strict=True)]
            count = rows.num_rows
            steps = _steps(order, dict(zip(given, arrays, strict=True)), count)
    except Exception as problem:
        yield failed(as_failure(problem, order.gather.home))
        return
    whole = pa.record_batch([pa.array(np.arange(count)), pa.nulls(count, pa.binary()), *arrays], schema=schema)
    computes(home, job, number)
    for begin, end in blocks(steps, SLICE):
        if engine_stops(home):
            yield failed(Stopped("the engine stops, and does not wait for this tick"))
        yield whole.slice(begin, end - begin)


def _steps(order: ComputeOrder, values: dict[Expression, pa.Array], rows: int) -> F64:
    """What Spark has to do for each row, unless that is too much for one row."""
    seconds = order.rules.limits.expression_seconds
    each = [steps_of(column, values, rows) for column in order.columns]
    slow = f"for a row it takes more than {seconds:g} seconds (option expression_seconds)"
    failed = [
        column.shown
        for column, steps in zip(order.columns, each, strict=True)
        if seconds and steps.max(initial=0) > seconds * STEPS_A_SECOND
    ]
    if failed:
        raise ExpressionError.of(dict.fromkeys(failed, slow))
    return sum(each, np.zeros(rows))


def _evaluated(rows: pa.RecordBatch, texts: list[str]) -> list[pa.Array]:
    done = evaluate(rows, texts)
    failed = [text for text, failures in zip(texts, done.failures, strict=True) if failures]
    if failed:  # NULL in its place would be another value for Spark, and the result a wrong one
        raise ExpressionError.of(dict.fromkeys(failed, "it fails for a value, and Spark computes with it"))
    return done.values


def spark_arrow(declared: str) -> pa.DataType:
    """The Arrow type in which Spark takes values of a declared type: instants have a zone, also inside of others."""
    kind, inner = nested(declared)
    parts = {name: spark_arrow(each) for name, each in inner.items()}
    match kind:
        case "array":
            return pa.list_(parts["item"])
        case "map":
            return pa.map_(parts["key"], parts["value"])
        case "struct":
            return pa.struct(list(parts.items()))
    return outside(declared)


def _ending(packed: bytes, run: str, job: str, end: End) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def finish(batches: Batches) -> Iterator[pa.RecordBatch]:
        worker = worker_of(run)
        order: ComputeOrder = worker.plans.unpack(packed)
        home, number = Path(order.gather.home), task_context().partitionId()
        received = []
        for batch in batches:
            computes(home, job, number)
            received.append(batch)
        has_computed(home, job, number)
        (report,) = on_disk(order, [end(worker, order, order.buckets[number], received, task_name())])
        yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    return finish


def _passing(*_: object) -> None:
    """Nothing is made of the columns."""


def _written(
    worker: Worker, order: ComputeOrder, info: BucketInfo, batches: list[pa.RecordBatch], name: str
) -> ComputeReport:
    try:
        with worker.limited(order):
            bucket = _with_columns(order, Bucket.open(Path(order.gather.home), info), batches)
            rule = order.rules.stream_stores[order.store]
            if info.first_tick == order.gather.tick:
                gather = Gather(order.gather, rule, f"s{name}")
                gather.finish(bucket)
                return ComputeReport(info, gather.report)
            file = layout.bucket_file(order.store, order.gather.tick, order.gather.attempt, f"s{name}")
            kept = {key: getattr(info, key) for key in ("store", "partition", "layout", "first_tick", "last_tick")}
            written = bucket.write(Path(order.gather.home), file, rule.derived, **kept)
            return ComputeReport(info, GatherReport(order.store, [written]))
    except Exception as problem:
        return ComputeReport(info, GatherReport(order.store, failure=as_failure(problem, order.gather.home)))


def _with_columns(order: ComputeOrder, bucket: Bucket, batches: list[pa.RecordBatch]) -> Bucket:
    table = pa.Table.from_batches(batches) if batches else None
    if table is not None and table.column(_FAILURE).null_count < table.num_rows:
        raise pickle.loads(table.column(_FAILURE).drop_null()[0].as_py())
    if table is None or not np.array_equal(table.column(_ROW).to_numpy(), np.arange(len(bucket))):
        raise StateError(
            "Spark has computed other rows than those of the bucket", hint="start again with the same home"
        )
    rows = without_unused(bucket.rows, order.rules.store(order.store).derived)
    replaced = {column.name for column in order.columns}
    columns = {name: rows.column(name) for name in rows.schema.names if name not in replaced}
    for at, column in enumerate(order.columns):
        columns[column.name] = _at_rest(table.column(f"v{at}"), column)
    # Buckets of one store are merged, so their columns have one order.
    names = [*bucket.rows.schema.names, *sorted(replaced)]
    names.sort(key=lambda name: (name.startswith(HIDDEN), name if name.startswith(HIDDEN) else ""))
    whole = pa.record_batch({name: columns[name] for name in dict.fromkeys(names) if name in columns})
    return Bucket(whole, bucket.tau, bucket.deadline)


def _at_rest(values: pa.ChunkedArray, column: SparkCall) -> pa.Array:
    """Values as buckets keep them. An instant is kept as its UTC microseconds."""
    found = values.combine_chunks()
    array = found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
    wanted = arrow_type(column.type)
    return array if array.type == wanted else array.cast(wanted)
