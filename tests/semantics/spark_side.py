"""What Spark answers: one job for many expressions, in which an error is told from NULL and spoils nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.semantics.values import COLUMNS

# Nothing is compiled or shared, so that each expression fails for itself.
SETTINGS = {
    # With rules of its own Spark removes errors by comparing types, CAST(error AS TINYINT) < 1000, which are counted
    # here; and it makes errors of values, as it computes (x + y) + 2 for (2 + x) + y.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("UnwrapCastInBinaryComparison", "ReorderAssociativeOperator")
    ),
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_ANALYZED = 25  # expressions at a time


class Spark:
    def __init__(self, session: Any, rows: pa.Table, folder: Path, columns: dict[str, str] = COLUMNS) -> None:
        self._session = session = session.newSession()
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        zoned = [
            pa.field(each.name, pa.timestamp("us", "UTC") if columns.get(each.name) == "timestamp" else each.type)
            for each in rows.schema
        ]
        pq.write_table(rows.cast(pa.schema(zoned)), folder / "rows.parquet")
        self.rows = session.read.parquet(str(folder / "rows.parquet")).coalesce(1)

    def type_of(self, expression: str) -> str | None:
        """Spark's type, or None where Spark rejects the expression."""
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            return str(self.rows.selectExpr(f"{expression} AS v").schema[0].dataType.simpleString())
        except PySparkException:
            return None

    def types_of(self, expressions: list[str]) -> list[str | None]:
        """The same for many; those that Spark rejects are found by halves."""
        from pyspark.errors import PySparkException  # noqa: PLC0415

        if len(expressions) > _ANALYZED:
            return self.types_of(expressions[:_ANALYZED]) + self.types_of(expressions[_ANALYZED:])
        try:
            fields = self.rows.selectExpr(*(f"{each} AS c{at}" for at, each in enumerate(expressions))).schema
        except PySparkException:
            if len(expressions) == 1:
                return [None]
            half = len(expressions) // 2
            return self.types_of(expressions[:half]) + self.types_of(expressions[half:])
        return [field.dataType.simpleString() for field in fields]

    def answers(self, expressions: list[str]) -> list[list[tuple[bool, object]]]:
        """For each expression and row: whether it failed, and the value."""
        jvm = self._session._jvm
        utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
        from pyspark.sql.classic.column import Column  # noqa: PLC0415
        from pyspark.sql.functions import expr  # noqa: PLC0415

        columns = []
        for at, expression in enumerate(expressions):
            inner = utils.expression(expr(f"named_struct('v', if(id >= 0, {expression}, NULL))")._jc)
            columns.append(
                Column(utils.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner))).alias(f"c{at}")
            )
        rows = self.rows.orderBy("id").select(*columns).toArrow()
        return [told(rows.column(at).combine_chunks()) for at in range(len(expressions))]


def plain(values: pa.Array) -> list[object]:
    """Python values; of dates and times numbers, because Python ends at the years 1 and 9999."""
    if pa.types.is_timestamp(values.type):
        return list(values.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist())
    return list((values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).to_pylist())


def told(packed: pa.Array) -> list[tuple[bool, object]]:
    packed = packed.chunk(0) if isinstance(packed, pa.ChunkedArray) else packed
    pairs = zip(packed.is_valid().to_pylist(), plain(packed.field(0)), strict=True)
    return [(not valid, value if valid else None) for valid, value in pairs]
