"""Solvers that HiGHS is compared with (decision 6): SCIP and CP-SAT. Their packages are installed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from watersmeet.errors import ModelError
from watersmeet.optimize.exact.solver import INFINITY, Model, Solver, SolverResult, finite, load, solve_highs


def solve_scip(model: Model, time_limit: float, start: Sequence[float] | None = None) -> SolverResult:
    scip = load("pyscipopt")
    solver = scip.Model()
    solver.hideOutput()
    solver.setParams({"limits/time": max(0.0, time_limit), "limits/gap": 0.0, "parallel/maxnthreads": 1})
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
    bound = finite(solver.getDualbound())
    if abs(bound) >= solver.infinity():
        bound = -INFINITY
    if solver.getNSols() == 0:
        return SolverResult(None, INFINITY, bound)
    best = solver.getBestSol()
    values = [solver.getSolVal(best, variable) for variable in variables]
    return SolverResult(values, solver.getSolObjVal(best), bound, solver.getStatus() in ("optimal", "gaplimit"))


def solve_cp_sat(model: Model, time_limit: float, start: Sequence[float] | None = None) -> SolverResult:
    """CP-SAT has no continuous variables: all are 0 or 1, which is right for our programs, and costs are rounded."""
    sat = load("ortools.sat.python.cp_model", "ortools")
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
    solver.parameters.relative_gap_limit = 0.0
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2
    status = solver.solve(program)
    # Rounding moved each cost by at most half a unit.
    bound = (solver.best_objective_bound - 0.5 * len(costs)) / scale + model.offset
    if status in (sat.INFEASIBLE, sat.UNKNOWN):
        return SolverResult(None, INFINITY, finite(bound))
    values = [float(solver.value(variable)) for variable in variables]
    return SolverResult(values, model.cost(values), bound, status == sat.OPTIMAL)


SOLVERS: dict[str, Solver] = {"highs": solve_highs, "scip": solve_scip, "cp-sat": solve_cp_sat}
