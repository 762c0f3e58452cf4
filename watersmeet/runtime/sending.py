"""Orders on their way to tasks. The Ruleset is by far their largest part and seldom changes, so it goes ahead of them:
as a file that each worker reads once and keeps.

The file is named by the run of the engine and the version of the plan, which says all of its content. So what a dead
engine writes late is never read, and a file that is there can be relied upon.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from watersmeet.plan.ruleset import Ruleset, Start
from watersmeet.runtime.orders import GatherOrder, ProbeOrder

Order = GatherOrder | ProbeOrder


class RulesFile:
    """The rules that the tasks of a tick obey. There is one at a time, because ticks take turns."""

    def __init__(self, home: Path, run: str) -> None:
        self._folder = home / "orders" / run
        self.path: Path | None = None

    def write(self, rules: Ruleset) -> None:
        path = self._folder / f"{rules.version}.rules"
        if path != self.path:
            write_whole(path, pickle.dumps(rules, protocol=5))
            self.remove()
            self.path = path

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that others either do not see or see whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(content)
    draft.rename(path)


def pack(order: Order, rules_file: RulesFile) -> bytes:
    """An order without its rules, which are in a file."""
    packed = io.BytesIO()
    _Packer(packed, order.rules, str(rules_file.path)).dump(order)
    return packed.getvalue()


def unpack(packed: bytes) -> Any:
    return _Unpacker(io.BytesIO(packed)).load()


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, rules: Ruleset, rules_file: str) -> None:
        super().__init__(file, protocol=5)
        self._rules_file = rules_file
        self._numbers = {id(start): number for number, start in enumerate(rules.starts)}

    def persistent_id(self, thing: Any) -> tuple[str, int | None] | None:
        if isinstance(thing, Ruleset):
            return self._rules_file, None
        if isinstance(thing, Start):  # those of an order are some of the rules'
            return self._rules_file, self._numbers[id(thing)]
        return None


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, known: tuple[str, int | None]) -> Ruleset | Start:
        rules_file, number = known
        rules = _read(rules_file)
        return rules if number is None else rules.starts[number]


_last: dict[str, Ruleset] = {}  # what this process has read; one, because plans do not come back


def _read(rules_file: str) -> Ruleset:
    if rules_file not in _last:
        rules = pickle.loads(Path(rules_file).read_bytes())
        _last.clear()
        _last[rules_file] = rules
    return _last[rules_file]
