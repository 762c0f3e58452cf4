"""Orders as they are sent to tasks. The plan is by far their largest part and seldom changes, so it is sent separately:
as a file that each worker reads once and keeps.

The file is named by the run of the engine, the version of the plan and a number, and never changes. So what a dead
engine writes late is never read, and a file that is there can be relied upon.
"""

from __future__ import annotations

import io
import itertools
import pickle
from pathlib import Path
from typing import Any, Protocol

from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.model import Query, Stream
from watersmeet.plan.ruleset import Ruleset, Start
from watersmeet.runtime.tick.orders import Order

_KEPT = 2  # plans: while a tick is probed under one, the next may be gathered under another
_Parts = tuple[Ruleset, tuple[Stream, ...], tuple[Query, ...]]


class PlanInForce(Protocol):
    """What ticks obey from the next one on; replaced as a whole, never changed."""

    @property
    def rules(self) -> Ruleset: ...

    @property
    def streams(self) -> tuple[Stream, ...]: ...

    @property
    def queries(self) -> tuple[Query, ...]: ...

    @property
    def left_out(self) -> tuple[Query, ...]:
        """Suspended queries, for which there are no rules; their streams are stored."""


class PlanFiles:
    """The plans that orders name, in the home of the engine."""

    def __init__(self, home: Path, run: str) -> None:
        self._home, self._run = home, run
        self._written: dict[Path, _Parts] = {}
        self._numbers = itertools.count()

    def write(self, plan: PlanInForce) -> None:
        parts = (plan.rules, plan.streams, plan.queries)
        if any(all(a is b for a, b in zip(known, parts, strict=True)) for known in self._written.values()):
            return
        # The same rules may come again with queries of which another one is new: the number tells them apart.
        path = layout.plan_file(self._home, self._run, plan.rules.version, next(self._numbers))
        write_whole(path, pickle.dumps(parts, protocol=5))
        self._written[path] = parts
        for old in list(self._written)[:-_KEPT]:
            self._remove(old)

    def pack(self, order: Order) -> bytes:
        """An order in which what the plan says is only named."""
        packed = io.BytesIO()
        _Packer(packed, self._written).dump(order)
        return packed.getvalue()

    def remove(self) -> None:
        for path in list(self._written):
            self._remove(path)

    def _remove(self, path: Path) -> None:
        del self._written[path]
        path.unlink(missing_ok=True)


class PlansRead:
    """The plans that a worker has read."""

    def __init__(self) -> None:
        self._read: dict[str, _Parts] = {}

    def unpack(self, packed: bytes) -> Any:
        return _Unpacker(io.BytesIO(packed), self).load()

    def parts(self, path: str) -> _Parts:
        if path not in self._read:
            self._read[path] = pickle.loads(Path(path).read_bytes())
            for old in list(self._read)[:-_KEPT]:
                del self._read[old]
        return self._read[path]


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, plans: dict[Path, _Parts]) -> None:
        super().__init__(file, protocol=5)
        self._named: dict[int, tuple[str, int, int | None]] = {}
        for path, parts in plans.items():
            for at, part in enumerate(parts):
                if part:  # all empty tuples are one
                    self._named[id(part)] = (str(path), at, None)
            for number, start in enumerate(parts[0].starts):  # those of an order are some of the plan's
                self._named[id(start)] = (str(path), 0, number)

    def persistent_id(self, thing: Any) -> tuple[str, int, int | None] | None:
        return self._named.get(id(thing)) if isinstance(thing, Ruleset | Start | tuple) else None


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, plans: PlansRead) -> None:
        super().__init__(file)
        self._plans = plans

    def persistent_load(self, known: tuple[str, int, int | None]) -> Any:
        path, at, number = known
        part: Any = self._plans.parts(path)[at]
        return part if number is None else part.starts[number]
