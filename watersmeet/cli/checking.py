"""Everything that is wrong with a script, found without data and without Spark."""

from __future__ import annotations

import re

from watersmeet.engine import Engine
from watersmeet.errors import SqlError, WatersmeetError
from watersmeet.sql import CreateQuery, CreateStream, Statement, parse_each


def all_errors(engine: Engine, script: str, file: str) -> list[WatersmeetError]:
    """Every error of a script, except those that only follow from another one.

    An error follows from another if it points at the name of something whose own statement is wrong.
    """
    errors: list[WatersmeetError] = []
    statements = list(parse_each(script, file))
    meant = {name.lower() for name in re.findall(r"create\s+(?:stream|query)\s+`?(\w+)", script, re.IGNORECASE)}
    wrong = meant - {_creates(statement) for statement in statements if not isinstance(statement, SqlError)}
    for statement in statements:
        if isinstance(statement, SqlError):
            errors.append(statement)
            continue
        try:
            engine.execute(statement)
        except WatersmeetError as error:
            if _pointed_at(error) not in wrong:
                errors.append(error)
            created = _creates(statement)
            known = [*(stream.name for stream in engine.streams), *(query.name for query in engine.queries)]
            if created and created not in map(str.lower, known):
                wrong.add(created)
    if not errors and not engine.streams:
        errors.append(WatersmeetError(f"{file} declares no stream", hint="begin with CREATE STREAM …"))
    return errors


def _creates(statement: Statement) -> str:
    """The name that a statement introduces, if it does."""
    if isinstance(statement, CreateStream):
        return statement.stream.name.lower()
    return statement.name.lower() if isinstance(statement, CreateQuery) else ""


def _pointed_at(error: WatersmeetError) -> str:
    return error.place.text[error.place.start : error.place.end].strip("`").lower() if error.place else ""
