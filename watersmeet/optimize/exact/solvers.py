"""Mixed integer programs as plain arrays, and the solvers that take them. A solver's package is imported when used."""

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
class Answer:
    values: list[float] | None  # none if no plan was found in time
    objective: float
    bound: float
    status: str  # optimal, feasible, unknown or infeasible


Solver = Callable[[Model, float, float, Sequence[float] | None], Answer]  # (model, seconds, relative gap, start)


def solve_highs(model: Model, time_limit: float, gap: float = 0.0, start: Sequence[float] | None = None) -> Answer:
    highspy = _load("highspy")
    highs = _highs_with(model, any_integer=True)
    for option, value in (("time_limit", max(0.0, time_limit)), ("mip_rel_gap", gap), ("mip_abs_gap", 1e-9)):
        highs.setOptionValue(option, value)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = list(start)
        highs.setSolution(solution)
    highs.run()
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    status = highs.getModelStatus()
    if not found:
        infeasible = status == highspy.HighsModelStatus.kInfeasible
        return Answer(None, INFINITY, _finite(info.mip_dual_bound), "infeasible" if infeasible else "unknown")
    optimal = status == highspy.HighsModelStatus.kOptimal
    objective = info.objective_function_value
    bound = info.mip_dual_bound if any(model.integer) else objective
    return Answer(list(highs.getSolution().col_value), objective, _finite(bound), "optimal" if optimal else "feasible")


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
        if highs.getModelStatus() != _load("highspy").HighsModelStatus.kOptimal:
            return None
        return float(highs.getInfo().objective_function_value), list(highs.getSolution().col_value)


def _highs_with(model: Model, *, any_integer: bool) -> Any:
    highspy, numpy = _load("highspy"), _load("numpy")
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


def solve_scip(model: Model, time_limit: float, gap: float = 0.0, start: Sequence[float] | None = None) -> Answer:
    scip = _load("pyscipopt")
    solver = scip.Model()
    solver.hideOutput()
    solver.setParams({"limits/time": max(0.0, time_limit), "limits/gap": gap, "parallel/maxnthreads": 1})
    variables = [
        solver.addVar(vtype="I" if integer else "C", lb=lower, ub=upper, obj=cost)
        for cost, lower, upper, integer in zip(model.objective, model.lower, model.upper, model.integer, strict=True)
    ]
    for variable, priority in zip(variables, model.priority, strict=True):
        solver.chgVarBranchPriority(variable, priority)
    solver.addObjoffset(model.offset)
    for lower, terms, upper in model.each_row():
        row = scip.quicksum(value * variables[column] for column, value in terms)
        if lower == upper:
            solver.addCons(row == lower)
        elif lower == -INFINITY:
            solver.addCons(row <= upper)
        elif upper == INFINITY:
            solver.addCons(row >= lower)
        else:
            solver.addCons(scip.ExprCons(row, lower, upper))
    if start is not None:
        given = solver.createSol()
        for variable, value in zip(variables, start, strict=True):
            solver.setSolVal(given, variable, value)
        solver.addSol(given)
    solver.optimize()
    status = solver.getStatus()
    bound = _finite(solver.getDualbound())
    if abs(bound) >= solver.infinity():
        bound = -INFINITY
    if solver.getNSols() == 0:
        return Answer(None, INFINITY, bound, "infeasible" if status == "infeasible" else "unknown")
    best = solver.getBestSol()
    values = [solver.getSolVal(best, variable) for variable in variables]
    proven = "optimal" if status in ("optimal", "gaplimit") else "feasible"
    return Answer(values, solver.getSolObjVal(best), bound, proven)


def solve_cp_sat(model: Model, time_limit: float, gap: float = 0.0, start: Sequence[float] | None = None) -> Answer:
    """CP-SAT has no continuous variables: all are 0 or 1, which is right for our programs, and costs are rounded."""
    sat = _load("ortools.sat.python.cp_model", "ortools")
    if any(bounds != (0.0, 1.0) for bounds in zip(model.lower, model.upper, strict=True)):
        raise ModelError("CP-SAT takes programs of variables between 0 and 1 only")
    program = sat.CpModel()
    variables = [program.new_bool_var("") for _ in model.objective]
    total = sum(abs(cost) for cost in model.objective) or 1.0
    scale = 2.0**40 / total  # a power of two below the range of 64 bits even if all is chosen
    costs = [round(cost * scale) for cost in model.objective]
    program.minimize(sum(cost * variable for cost, variable in zip(costs, variables, strict=True)))
    for lower, terms, upper in model.each_row():
        row_scale = 1.0 if all(value == round(value) for _, value in terms) else 2.0**30 / max(abs(v) for _, v in terms)
        # Rounded against us: a coefficient never gets smaller, a limit never larger, and so what fits really fits.
        row = sum(math.ceil(value * row_scale) * variables[column] for column, value in terms)
        if lower == upper:
            program.add(row == round(lower * row_scale))
        else:
            if lower > -INFINITY:
                program.add(row >= math.ceil(lower * row_scale))
            if upper < INFINITY:
                program.add(row <= math.floor(upper * row_scale))
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            program.add_hint(variable, round(value))
    solver = sat.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = max(0.0, time_limit)
    solver.parameters.relative_gap_limit = gap
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2
    status = solver.solve(program)
    # Rounding moved each cost by at most half a unit.
    bound = (solver.best_objective_bound - 0.5 * len(costs)) / scale + model.offset
    if status in (sat.INFEASIBLE, sat.UNKNOWN):
        return Answer(None, INFINITY, _finite(bound), "infeasible" if status == sat.INFEASIBLE else "unknown")
    values = [float(solver.value(variable)) for variable in variables]
    return Answer(values, model.cost(values), bound, "optimal" if status == sat.OPTIMAL else "feasible")


SOLVERS: dict[str, Solver] = {"highs": solve_highs, "scip": solve_scip, "cp-sat": solve_cp_sat}


def _finite(bound: float) -> float:
    return bound if math.isfinite(bound) else -INFINITY


def _load(package: str, install: str | None = None) -> Any:
    try:
        module: ModuleType = importlib.import_module(package)
    except ImportError as problem:
        raise ModelError(
            f"the solver needs the package {install or package}, which is not installed or cannot be loaded",
            detail=str(problem),
            hint=f"pip install {install or package}",
        ) from None
    return module
