"""Orders as they are sent to tasks. The plan is by far their largest part and seldom changes, so it is sent separately:
as a file that each worker reads once and keeps.

The file is named by the run of the engine, the version of the plan and a number, and never changes. So what a dead
engine writes late is never read, and a file that is there can be relied upon. It is a pickle: an order, which comes
over a connection that strangers cannot use, names the digest of the file, and one with another is never unpickled.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import pickle
from pathlib import Path
from typing import Any

from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.files import write_whole
from watersmeet.model import Query, Stream
from watersmeet.plan.ruleset import Ruleset, Start
from watersmeet.runtime.tick.active_plan import ActivePlan

_KEPT = 2  # plans: while a tick is probed under one, the next may be gathered under another
_Parts = tuple[Ruleset, tuple[Stream, ...], tuple[Query, ...]]
_Name = tuple[str, bytes, int, int | None]  # of a part of a plan: file, digest, which part, which start of the rules


class PlanFiles:
    """The plans that orders name, in the home of the engine."""

    def __init__(self, home: Path, run: str) -> None:
        self._home, self._run = home, run
        self._written: dict[Path, tuple[_Parts, bytes]] = {}  # with the digest
        self._numbers = itertools.count()

    def write(self, plan: ActivePlan) -> None:
        parts = (plan.rules, plan.streams, plan.queries)
        if any(all(a is b for a, b in zip(known, parts, strict=True)) for known, _ in self._written.values()):
            return
        # The same rules may come again with queries of which another one is new: the number tells them apart.
        path = layout.plan_file(self._home, self._run, plan.rules.version, next(self._numbers))
        content = pickle.dumps(parts, protocol=5)
        write_whole(path, content)
        self._written[path] = parts, _digest(content)
        for old in list(self._written)[:-_KEPT]:
            self._remove(old)

    def pack(self, order: Any) -> bytes:
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
        self._read: dict[tuple[str, bytes], _Parts] = {}

    def unpack(self, packed: bytes) -> Any:
        return _Unpacker(io.BytesIO(packed), self).load()

    def parts(self, path: str, digest: bytes) -> _Parts:
        if (path, digest) not in self._read:
            content = Path(path).read_bytes()
            if _digest(content) != digest:
                raise StateError(
                    f"the plan {path} is not the one that the engine wrote",
                    detail="It is not read, because a changed plan could make tasks run any code.",
                    hint="see who may write into the home folder, and start again",
                )
            self._read[path, digest] = pickle.loads(content)
            for old in list(self._read)[:-_KEPT]:
                del self._read[old]
        return self._read[path, digest]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, plans: dict[Path, tuple[_Parts, bytes]]) -> None:
        super().__init__(file, protocol=5)
        self._named: dict[int, _Name] = {}
        for path, (parts, digest) in plans.items():
            for at, part in enumerate(parts):
                if part:  # all empty tuples are one
                    self._named[id(part)] = (str(path), digest, at, None)
            for number, start in enumerate(parts[0].starts):  # those of an order are some of the plan's
                self._named[id(start)] = (str(path), digest, 0, number)

    def persistent_id(self, thing: Any) -> _Name | None:
        return self._named.get(id(thing)) if isinstance(thing, Ruleset | Start | tuple) else None


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, plans: PlansRead) -> None:
        super().__init__(file)
        self._plans = plans

    def persistent_load(self, known: _Name) -> Any:
        path, digest, at, number = known
        part: Any = self._plans.parts(path, digest)[at]
        return part if number is None else part.starts[number]
