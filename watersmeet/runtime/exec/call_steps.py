"""The steps that Spark's functions take for one row, where they grow with the square of its values.

Spark cannot be interrupted inside of a row. So a row that takes too long is not given to Spark, and blocks end where a
job that is cancelled may end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model import SparkCall
from watersmeet.model.expression import Expression, Literal
from watersmeet.model.spark_call import FunctionCall, is_constant

F64 = np.ndarray[Any, np.dtype[np.float64]]
STEPS_A_SECOND = 1e8  # a core does some more


def steps_of(column: SparkCall, values: Mapping[Expression, pa.Array], rows: int) -> F64:
    """For each row, the characters that levenshtein compares."""
    steps = np.zeros(rows)
    for call in _calls(column.call):
        if call.function == "levenshtein":
            left, right = (_bytes_of(argument, values, rows) for argument in call.arguments)
            steps += left * right
    return steps


def blocks(steps: F64, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most so many rows which Spark computes in about a second, if they are more than one row."""
    sums = np.cumsum(steps)
    begin = 0
    while begin < len(steps):
        before = sums[begin - 1] if begin else 0.0
        end = int(np.searchsorted(sums, before + STEPS_A_SECOND, "right"))
        end = min(max(end, begin + 1), begin + most)
        yield begin, end
        begin = end


def _calls(call: FunctionCall) -> Iterator[FunctionCall]:
    yield call
    for argument in call.arguments:
        if isinstance(argument, FunctionCall):
            yield from _calls(argument)


def _bytes_of(argument: FunctionCall | Expression, values: Mapping[Expression, pa.Array], rows: int) -> F64:
    """An estimate: of a call, the bytes of its arguments."""
    if isinstance(argument, FunctionCall):
        return sum((_bytes_of(each, values, rows) for each in argument.arguments), np.zeros(rows))
    if isinstance(argument, Literal) and is_constant(argument):
        return np.full(rows, float(len(str(argument.value).encode())))
    array = values[argument]
    if not pa.types.is_string(array.type):
        return np.zeros(rows)
    return np.asarray(pc.fill_null(pc.binary_length(array), 0), np.float64)
