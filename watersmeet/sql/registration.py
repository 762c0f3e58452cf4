"""Registration of Python functions of users as predicates: values that travel with the plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from watersmeet.errors import ModelError
from watersmeet.model import Registered
from watersmeet.model.stream import check_name
from watersmeet.sql.bind import is_built_in
from watersmeet.sql.parse import is_known_function


def register(name: str, function: Callable[..., Any], by_row: bool, seconds: float) -> Registered:
    import pyspark.cloudpickle

    pickler: Any = pyspark.cloudpickle
    check_name("predicate", name)
    if is_built_in(name) or is_known_function(name):
        raise ModelError(f"a built-in function named {name} exists already", hint="choose another name")
    if not callable(function):
        raise ModelError(f"predicate {name} is not a function but {type(function).__name__}")
    try:
        code = pickler.dumps(function)
    except Exception as problem:
        raise ModelError(
            f"predicate {name} cannot be sent to the workers",
            detail=str(problem).split("\n", maxsplit=1)[0],
            hint="use only values that can be pickled in it: no locks, connections or open files",
        ) from None
    return Registered(name, code, hashlib.sha256(code).hexdigest()[:12], by_row, seconds)
