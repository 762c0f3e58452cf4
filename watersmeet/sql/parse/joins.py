"""The kind of a join, read from the parser's own fields for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# By side and kind, as Spark has them.
_KINDS = {
    **{("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "cross", ("", "COMMA"): "comma"},
    **{(side, word): side.lower() for side in ("LEFT", "RIGHT", "FULL") for word in ("", "OUTER")},
    **{(side, kind): kind.lower() for side in ("", "LEFT") for kind in ("SEMI", "ANTI")},
}
_NATURAL = ("inner", "left", "right", "full")


@dataclass(frozen=True)
class JoinFields:
    kind: str | None  # inner, cross, comma, left, right, full, semi or anti; None: Spark has no such join
    natural: bool
    written: str  # without regard to case and comments
    on: Any  # None: no condition
    using: list[Any]


def join_fields(join: Any) -> JoinFields:
    method, side, word = (str(join.args.get(name) or "").upper() for name in ("method", "side", "kind"))
    on, using = join.args.get("on"), join.args.get("using") or []
    kind = _KINDS.get((side, word)) if method in ("", "NATURAL") else None
    if method and (kind not in _NATURAL or on or using):
        kind = None
    if kind == "cross" and (on or using):
        kind = "inner"
    written = "," if word == "COMMA" else " ".join(each for each in (method, side, word, "JOIN") if each)
    return JoinFields(kind, bool(method), written, on, using)
