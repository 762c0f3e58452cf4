"""Strings that are not UTF-8 are found where they are, without looking at every row by itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.runtime import gather
from watersmeet.runtime.gather import invalid_text

BAD, TEXTS = b"\xff", [b"", b"a", b"\xc3\xa9" * 20, b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff"]
BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.int32(): pa.int32()}
KINDS = [
    pa.string(),
    pa.large_string(),
    pa.list_(pa.string()),
    pa.large_list(pa.struct([("n", pa.int32()), ("s", pa.string())])),
    pa.map_(pa.string(), pa.list_(pa.string())),
    pa.struct([("s", pa.string()), ("l", pa.list_(pa.list_(pa.large_string()))), ("n", pa.int32())]),
]


def with_bytes(kind: pa.DataType) -> pa.DataType:
    """The same type with bytes in place of strings, of which any value can be made."""
    if pa.types.is_map(kind):
        return pa.map_(with_bytes(kind.key_type), with_bytes(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, with_bytes(field.type)) for field in kind])
    if pa.types.is_nested(kind):
        return (pa.large_list if pa.types.is_large_list(kind) else pa.list_)(with_bytes(kind.value_type))
    return BYTES[kind]


def as_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers, of a type with strings."""
    if not pa.types.is_nested(kind):
        return array.view(kind)
    if pa.types.is_struct(kind):
        inner = [as_text(array.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], children=inner)
    inner = [as_text(array.values, kind.field(0).type)]
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], children=inner)


def value(random: Random, kind: pa.DataType) -> Any:
    if random.random() < 0.1:
        return None
    if pa.types.is_map(kind):
        return [
            (value(random, kind.key_type) or b"", value(random, kind.item_type)) for _ in range(random.randrange(3))
        ]
    if pa.types.is_struct(kind):
        return {field.name: value(random, field.type) for field in kind}
    if pa.types.is_nested(kind):
        return [value(random, kind.value_type) for _ in range(random.randrange(4))]
    return 1 if kind == pa.int32() else random.choice(TEXTS if random.random() < 0.05 else TEXTS[:3])


def has_bad(found: Any) -> bool:
    if isinstance(found, dict):
        return any(map(has_bad, found.values()))
    if isinstance(found, list | tuple):
        return any(map(has_bad, found))
    return found in TEXTS[3:]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("block", [1, 7, 256])
def test_the_rows_are_found(monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, block: int) -> None:
    monkeypatch.setattr(gather, "_BLOCK", block)
    random = Random(block)
    given = [value(random, kind) for _ in range(500)]
    column = as_text(pa.array(given, with_bytes(kind)), kind)
    assert 0 < sum(map(has_bad, given)) < len(given)
    for begin, end in ((0, 500), (3, 450), (100, 101)):
        some = pa.RecordBatch.from_arrays([column[begin:end], pa.array(range(end - begin))], ["s", "n"])
        wanted = [at for at, each in enumerate(given[begin:end]) if has_bad(each)]
        assert invalid_text(some).tolist() == wanted


def test_one_string_does_not_make_all_rows_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is looked at as a whole and in blocks, and string by string only where a block has a bad one."""
    looked = {"arrays": 0, "strings": 0}

    def counting(what: str, real: Any) -> Any:
        def look(found: Any) -> bool:
            looked[what] += 1
            return bool(real(found))

        return look

    monkeypatch.setattr(gather, "_is_valid", counting("arrays", gather._is_valid))
    monkeypatch.setattr(gather, "_is_utf8", counting("strings", gather._is_utf8))
    texts = pa.array([b"abc"] * 70_000 + [BAD] + [b"abc"] * 30_000).view(pa.string())
    assert invalid_text(pa.RecordBatch.from_arrays([texts], ["s"])).tolist() == [70_000]
    assert looked["arrays"] <= 1 + 100_001 / gather._BLOCK + 1 and looked["strings"] <= gather._BLOCK
