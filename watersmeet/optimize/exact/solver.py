"""Mixed integer programs as plain arrays, and HiGHS, which solves them. A solver's package is imported when used."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

from watersmeet.errors import ModelError

INFINITY = math.inf


@dataclass
class Model:
    """Minimize objective · v for lower ≤ v ≤ upper, row_lower ≤ rows · v ≤ row_upper, some v integer."""

    objective: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    priority: list[int] = field(default_factory=list)  # branch on higher ones first, where the solver can be told
    row_starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    offset: float = 0.0

    def variable(
        self, cost: float = 0.0, lower: float = 0.0, upper: float = 1.0, *, integer: bool = False, priority: int = 0
    ) -> int:
        self.objective.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        self.priority.append(priority)
        return len(self.objective) - 1

    def row(self, terms: Iterable[tuple[int, float]], lower: float = -INFINITY, upper: float = INFINITY) -> None:
        for column, value in terms:
            self.columns.append(column)
            self.values.append(value)
        self.row_starts.append(len(self.columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def each_row(self) -> Iterator[tuple[float, list[tuple[int, float]], float]]:
        for row, (lower, upper) in enumerate(zip(self.row_lower, self.row_upper, strict=True)):
            span = slice(self.row_starts[row], self.row_starts[row + 1])
            yield lower, list(zip(self.columns[span], self.values[span], strict=True)), upper

    def fits(self, values: Sequence[float], tolerance: float = 1e-5) -> bool:
        """Whether values are a solution; what a solver returns when its time ends is better looked at."""
        for value, lower, upper, integer in zip(values, self.lower, self.upper, self.integer, strict=True):
            if value < lower - tolerance or value > upper + tolerance:
                return False
            if integer and abs(value - round(value)) > tolerance:
                return False
        for lower, terms, upper in self.each_row():
            total = sum(value * values[column] for column, value in terms)
            room = tolerance * max(1.0, max((abs(value) for _, value in terms), default=1.0))
            if total < lower - room or total > upper + room:
                return False
        return True

    def with_only(self, free: Sequence[int], values: Sequence[float]) -> Model:
        """The program in which all variables but the free ones keep their values."""
        place = dict(zip(free, range(len(free)), strict=True))
        part = Model()
        for column in free:
            part.variable(
                self.objective[column],
                self.lower[column],
                self.upper[column],
                integer=self.integer[column],
                priority=self.priority[column],
            )
        part.offset = self.cost(values) - sum(self.objective[column] * values[column] for column in free)
        for row in sorted({row for column in free for row in self._rows_of[column]}):
            lower, upper = self.row_lower[row], self.row_upper[row]
            terms = []
            for at in range(self.row_starts[row], self.row_starts[row + 1]):
                column, value = self.columns[at], self.values[at]
                if column in place:
                    terms.append((place[column], value))
                elif values[column]:
                    lower -= value * values[column]
                    upper -= value * values[column]
            part.row(terms, lower, upper)
        return part

    @cached_property
    def _rows_of(self) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in self.objective]
        for row in range(len(self.row_lower)):
            for at in range(self.row_starts[row], self.row_starts[row + 1]):
                rows[self.columns[at]].append(row)
        return rows

    def copy(self) -> Model:
        return deepcopy(self)

    def cost(self, values: Sequence[float]) -> float:
        return self.offset + sum(cost * value for cost, value in zip(self.objective, values, strict=True))


@dataclass(frozen=True)
class SolverResult:
    """What a solver has found within its time."""

    values: list[float] | None  # none if no plan was found in time
    objective: float
    bound: float
    optimal: bool = False  # it is proven that no plan is better


Solver = Callable[[Model, float, Sequence[float] | None], SolverResult]  # (model, seconds, start)


def solve_highs(model: Model, time_limit: float, start: Sequence[float] | None = None) -> SolverResult:
    highspy = load("highspy")
    highs = _highs_with(model, any_integer=True)
    for option, value in (("time_limit", max(0.0, time_limit)), ("mip_rel_gap", 0.0), ("mip_abs_gap", 1e-9)):
        highs.setOptionValue(option, value)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = list(start)
        highs.setSolution(solution)
    highs.run()
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if not found:
        return SolverResult(None, INFINITY, finite(info.mip_dual_bound))
    optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    objective = info.objective_function_value
    bound = info.mip_dual_bound if any(model.integer) else objective
    return SolverResult(list(highs.getSolution().col_value), objective, finite(bound), optimal)


class Relaxation:
    """A program without integrality, solved again and again with some of its variables fixed otherwise."""

    def __init__(self, model: Model) -> None:
        self._highs = _highs_with(model, any_integer=False)

    def fix(self, variable: int, value: float) -> None:
        self._highs.changeColBounds(variable, value, value)

    def coefficient(self, row: int, variable: int, value: float) -> None:
        self._highs.changeCoeff(row, variable, value)

    def solve(self, time_limit: float) -> tuple[float, list[float]] | None:
        """The least cost and the values, none if they are not found in time."""
        if time_limit <= 0:
            return None
        highs = self._highs
        highs.setOptionValue("time_limit", highs.getRunTime() + time_limit)  # HiGHS counts over all runs
        highs.run()
        if highs.getModelStatus() != load("highspy").HighsModelStatus.kOptimal:
            return None
        return float(highs.getInfo().objective_function_value), list(highs.getSolution().col_value)


def _highs_with(model: Model, *, any_integer: bool) -> Any:
    highspy, numpy = load("highspy"), load("numpy")
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        highs.setOptionValue(option, value)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(model.objective), len(model.row_lower)
    program.col_cost_ = numpy.array(model.objective)
    program.col_lower_, program.col_upper_ = numpy.array(model.lower), numpy.array(model.upper)
    program.row_lower_, program.row_upper_ = numpy.array(model.row_lower), numpy.array(model.row_upper)
    program.offset_ = model.offset
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = numpy.array(model.row_starts)
    program.a_matrix_.index_ = numpy.array(model.columns)
    program.a_matrix_.value_ = numpy.array(model.values)
    if any_integer:
        kinds = highspy.HighsVarType
        program.integrality_ = [kinds.kInteger if integer else kinds.kContinuous for integer in model.integer]
    highs.passModel(program)
    return highs


def finite(bound: float) -> float:
    return bound if math.isfinite(bound) else -INFINITY


def load(package: str, install: str | None = None) -> Any:
    try:
        module: ModuleType = importlib.import_module(package)
    except ImportError as problem:
        raise ModelError(
            f"the solver needs the package {install or package}, which is not installed or cannot be loaded",
            detail=str(problem),
            hint=f"pip install {install or package}",
        ) from None
    return module
