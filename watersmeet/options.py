"""The options of an engine: name, default, meaning and valid values."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from watersmeet.errors import ModelError, WatersmeetError
from watersmeet.model.limits import Limits, TextLimits
from watersmeet.model.query import MAX_ALIASES
from watersmeet.optimize.research import Research
from watersmeet.sql import parse_duration


def _option(default: Any, meaning: str, check: Callable[[Any], str]) -> Any:
    """A field of `Options`. `check` returns the hint for an invalid value, or nothing."""
    return field(default=default, metadata={"help": meaning, "check": check})


def _one_of(*choices: str) -> Callable[[str], str]:
    return lambda value: "" if value in choices else f"use {', '.join(choices[:-1])} or {choices[-1]}"


def _at_least(least: float, most: float | None = None) -> Callable[[float], str]:
    allowed = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
    return lambda value: "" if value >= least and (most is None or value <= most) else f"use {allowed}"


def _more_than_zero(value: float) -> str:
    return "" if value > 0 else "use a value above 0"


def _duration(value: str) -> str:
    try:
        return "" if parse_duration(value) > 0 else "use a value above 0, for example 100 milliseconds"
    except WatersmeetError as problem:
        return f"{problem.problem}; use for example 100 milliseconds or 2 seconds"


def _delay(value: str) -> str:
    return "" if value == "0" else _duration(value).replace("a value above 0", "0")


def _residents(value: str) -> str:
    return "" if value == "auto" or value.isdigit() else "use auto or a number; 0 for none"


def _master(value: str) -> str:
    if value.startswith("sc://"):
        return "that is Spark Connect, and an engine needs Spark in its own process: use local[4] or spark://host:7077"
    if value.startswith("mesos://"):
        return "this version of Spark has no Mesos: use local[4], spark://host:7077, yarn or k8s://host"
    known = re.fullmatch(r"|local|local(-cluster)?\[.+\]|yarn|(spark|k8s)://.+", value)
    return "" if known else "use a Spark master, for example local[4] or spark://host:7077"


def _searcher(value: str) -> str:
    from watersmeet.optimize.search import searchers

    return "" if not value or value in searchers else f"use one of {', '.join(searchers)}, or leave it empty"


def _folders(value: str) -> str:
    missing = [folder for folder in value.split(os.pathsep) if folder and not os.path.isdir(folder)]
    return f"use folders that exist, unlike {missing[0]}" if missing else ""


_SWITCH = _one_of("on", "off")
# Options of earlier versions, with the only value that an engine still has
_REMOVED = {name: getattr(Research(), name) for name in ("layouts", "parallelism", "costs", "sharing")}


@dataclass(frozen=True)
class Options:
    """The options of one engine; invalid values are rejected when it is made."""

    partitions: int = _option(1, "number of partitions that the state is spread over", _at_least(1, 1024))
    tick: str = _option("100 milliseconds", "shortest time from the start of one tick to the next", _duration)
    executor: str = _option(
        "spark", "spark: orders run in Spark tasks; local: in the engine's own process", _one_of("spark", "local")
    )
    residents: str = _option(
        "auto", "number of resident tasks; auto: half of Spark's slots; 0: a Spark job for each order", _residents
    )
    resident_seconds: float = _option(
        30.0, "seconds without a heartbeat after which a resident task is replaced", _at_least(1)
    )
    settle_seconds: float = _option(
        5.0, "seconds without a change after which a file that cannot be read is set aside", _at_least(0)
    )
    master: str = _option("", "Spark master; empty: all cores of this machine", _master)
    searcher: str = _option("", "algorithm that finds plans; empty: greedy, then improve, then exact", _searcher)
    plan_seconds: float = _option(
        2.0, "time limit for a search beside the ticks, or by a searcher that is named, in seconds", _more_than_zero
    )
    materialize: str = _option("on", "on or off: whether plans may materialize intermediate results", _SWITCH)
    storage_budget: float = _option(0.0, "limit for the tuples in all stores, as estimated; 0: no limit", _at_least(0))
    adaptive: str = _option("on", "on or off: whether the engine re-plans when the data changes", _SWITCH)
    epoch: int = _option(20, "number of ticks after which the optimizer re-plans", _at_least(1))
    predicate_seconds: float = _option(
        5.0, "time limit of a registered predicate for a block of rows, in seconds", _more_than_zero
    )
    into_roots: str = _option(
        "", f"folders below which INTO may write, separated by {os.pathsep}; empty: anywhere", _folders
    )
    max_matches: int = _option(
        100_000_000,
        "limit for the matches of a query in a tick; beyond it, it is suspended; 0: no limit",
        _at_least(0),
    )
    max_result_bytes: int = _option(
        10_000_000_000, "limit for the result bytes of a query in a task of a tick; 0: none", _at_least(0)
    )
    expression_seconds: float = _option(
        60.0, "seconds that an expression may take for a block of rows; 0: no limit", _at_least(0)
    )
    expression_memory: int = _option(
        1024, "megabytes of DuckDB's memory for the expressions of a task; 0: no limit", _at_least(0)
    )
    task_memory: int = _option(4096, "megabytes of memory that a Spark task may have; 0: no limit", _at_least(0))
    window_seconds: float = _option(
        600.0,
        "seconds that windows from rows may take for a query in a tick; beyond them it is suspended; 0: no limit",
        _at_least(0),
    )
    windows_per_tick: int = _option(
        16, "limit for the windows that Spark computes in a tick; the rest follows in the next ticks", _at_least(1)
    )
    max_outbox_ticks: int = _option(
        10_000, "limit for the ticks of a query that wait to be delivered; beyond it, it is suspended", _at_least(1)
    )
    result_delay: str = _option(
        "1 second",
        "how long few results of a query may wait, where a tick would write very many small files; 0: not at all",
        _delay,
    )
    durability: str = _option(
        "power",
        "power: what a tick commits survives a loss of power; process: only the end of any process",
        _one_of("power", "process"),
    )
    stop_seconds: float = _option(30.0, "seconds that a stop waits for the running tick to end", _at_least(0))
    max_query_length: int = _option(100_000, "limit for the characters of a query", _at_least(1))
    max_terms: int = _option(500, "limit for the terms of a query's conditions (ANDs, ORs)", _at_least(1))
    max_depth: int = _option(50, "limit for the depth of a query's expressions", _at_least(1))
    max_literal: int = _option(
        10_000, "limit for the characters of a literal, and for a size that a literal asks for", _at_least(1)
    )
    check_seconds: float = _option(10.0, "seconds that a request of another process may take to check", _more_than_zero)
    max_queries: int = _option(10_000, "limit for the number of queries", _at_least(1))
    max_windows_per_row: int = _option(
        100_000, "limit for the windows of a query that a row is in: RANGE divided by SLIDE", _at_least(1)
    )
    max_aliases: int = _option(MAX_ALIASES, "limit for the number of aliases in a query", _at_least(1, 32))
    research: Research = field(default_factory=Research)  # no option: for experiments under bench/

    @property
    def delay(self) -> float:
        """Seconds that results may wait."""
        return 0.0 if self.result_delay == "0" else parse_duration(self.result_delay) / 1e6

    @property
    def limits(self) -> Limits:
        return Limits(
            matches=self.max_matches,
            result_bytes=self.max_result_bytes,
            expression_seconds=self.expression_seconds,
            expression_megabytes=self.expression_memory,
            task_megabytes=self.task_memory,
            window_seconds=self.window_seconds,
            windows=self.windows_per_tick,
        )

    @property
    def text_limits(self) -> TextLimits:
        return TextLimits(
            self.max_query_length, self.max_terms, self.max_depth, self.max_literal, self.max_windows_per_row
        )

    def __post_init__(self) -> None:
        for option in user_options():
            value = getattr(self, option.name)
            if advice := option.metadata["check"](value):
                raise ModelError(
                    f"option {option.name}: invalid value {value!r}",
                    detail=f"{option.name}: {option.metadata['help']}.",
                    hint=advice,
                )


def user_options() -> list[Field[Any]]:
    """The options that a user may set."""
    return [option for option in fields(Options) if option.metadata]


def read_options(given: dict[str, Any]) -> tuple[Options, dict[str, str]]:
    """Options by name, from Python or from `--set name=value`; names with a dot are settings of Spark."""
    known = {option.name: option for option in user_options()}
    own: dict[str, Any] = {}
    spark: dict[str, str] = {}
    for name, value in given.items():
        if "." in name:
            spark[name] = str(value)
            continue
        if isinstance(value, Research):
            own["research"] = value
            continue
        if name in _REMOVED:
            raise ModelError(
                f"option {name} no longer exists",
                detail="It was for experiments, which are under bench/ and set it in Python.",
                hint=f"leave it out: the engine plans as with {name}={_REMOVED[name]}",
            )
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise ModelError(
                f"unknown option {name}" + (f": did you mean {close[0]}?" if close else ""),
                detail="Options: " + "; ".join(f"{o.name} ({o.metadata['help']})" for o in known.values()) + ".",
                hint="use one of these; names of Spark settings have a dot",
            )
        own[name] = _converted(name, getattr(Options, name), value)
    return Options(**own), spark


def _converted(name: str, default: Any, value: Any) -> Any:
    """The value in the type of the default; a switch also accepts a Python bool."""
    if isinstance(value, bool) and default in ("on", "off"):
        return "on" if value else "off"
    kind = type(default)
    try:
        return kind(value)
    except (TypeError, ValueError):
        number = "a whole number" if kind is int else "a number"
        raise ModelError(f"option {name}: {value!r} is not {number}") from None
