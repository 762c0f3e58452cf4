"""The settings of an engine, in one place: name, meaning, default, check."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from typing import Any

from watersmeet.errors import ModelError
from watersmeet.model.query import MAX_ALIASES


@dataclass(frozen=True)
class Options:
    partitions: int = field(default=1, metadata={"help": "places that the state is spread over"})
    tick: str = field(default="100 milliseconds", metadata={"help": "shortest time from one tick to the next"})
    executor: str = field(default="spark", metadata={"help": "spark, or local: embedded, without Spark tasks"})
    residents: str = field(
        default="auto",
        metadata={"help": "resident tasks; auto: half of Spark's slots; 0: a Spark job for each order"},
    )
    resident_seconds: float = field(
        default=30.0, metadata={"help": "time without a sign of life after which a resident task is replaced"}
    )
    master: str = field(default="", metadata={"help": "Spark master; empty: all cores of this machine"})
    searcher: str = field(default="", metadata={"help": "how plans are found; empty: greedy, improved, then proven"})
    plan_seconds: float = field(default=2.0, metadata={"help": "time for finding a plan"})
    materialize: str = field(default="on", metadata={"help": "on or off: whether intermediate results may be kept"})
    layouts: str = field(default="one", metadata={"help": "one, many or ignored: placements of a store, P > 1"})
    parallelism: str = field(default="chosen", metadata={"help": "chosen, or all: places of a store without a key"})
    storage_budget: float = field(default=0.0, metadata={"help": "most tuples to keep, as estimated; 0: no limit"})
    adaptive: str = field(default="on", metadata={"help": "on or off: whether the plan follows the data"})
    epoch: int = field(default=20, metadata={"help": "ticks after which the plan is thought over"})
    predicate_seconds: float = field(
        default=5.0, metadata={"help": "time that a registered predicate may take for a block of rows"}
    )

    sharing: str = field(default="groups", metadata={"help": "groups; all or none to compare how queries share steps"})
    max_queries: int = field(default=10_000, metadata={"help": "most queries at a time"})
    max_aliases: int = field(default=MAX_ALIASES, metadata={"help": "most aliases that one query may join"})

    def __post_init__(self) -> None:
        for name in ("max_queries", "max_aliases"):
            if getattr(self, name) < 1:
                raise ModelError(f"{name} = {getattr(self, name)} is out of range", hint="use 1 or more")
        if not 1 <= self.partitions <= 1024:
            raise ModelError(f"partitions = {self.partitions} is out of range", hint="use 1 to 1024")
        if self.materialize not in ("on", "off"):
            raise ModelError(f"materialize = {self.materialize} is unknown", hint="use on or off")
        if self.adaptive not in ("on", "off"):
            raise ModelError(f"adaptive = {self.adaptive} is unknown", hint="use on or off")
        if self.sharing not in ("groups", "all", "none"):
            raise ModelError(f"sharing = {self.sharing} is unknown", hint="use groups, all or none")
        if not self.predicate_seconds > 0:
            raise ModelError(f"predicate_seconds = {self.predicate_seconds} is out of range", hint="use more than 0")
        if self.executor not in ("spark", "local"):
            raise ModelError(f"executor = {self.executor} is unknown", hint="use spark or local")
        if self.residents != "auto" and not self.residents.isdigit():
            raise ModelError(f"residents = {self.residents} is unknown", hint="use auto, or a number; 0 for none")
        if not self.resident_seconds >= 1:
            raise ModelError(f"resident_seconds = {self.resident_seconds} is out of range", hint="use 1 or more")
        if self.epoch < 1:
            raise ModelError(f"epoch = {self.epoch} is out of range", hint="use a number of ticks, 1 or more")


def read_options(given: dict[str, Any]) -> tuple[Options, dict[str, str]]:
    """Options by name, from Python or from `--set name=value`; names with a dot are settings of Spark."""
    known = {option.name: option for option in fields(Options)}
    own: dict[str, Any] = {}
    spark: dict[str, str] = {}
    for name, value in given.items():
        if "." in name:
            spark[name] = str(value)
            continue
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise ModelError(
                f"there is no option {name}",
                detail="Options: " + "; ".join(f"{o.name} ({o.metadata['help']})" for o in known.values()) + ".",
                hint=f"did you mean {close[0]}?" if close else "settings of Spark have a dot in their name",
            )
        try:
            own[name] = _like(getattr(Options, name), value)
        except ValueError:
            raise ModelError(f"option {name} takes a number, not {value!r}") from None
    return Options(**own), spark


def _like(default: object, value: Any) -> Any:
    if isinstance(default, int):
        return int(value)
    return float(value) if isinstance(default, float) else str(value)
