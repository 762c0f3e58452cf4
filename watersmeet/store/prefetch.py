"""Memory that a compiled loop will read soon: asked for ahead, so that it is in a cache by then."""

from __future__ import annotations

from typing import Any

from watersmeet.store.compile_cache import CACHED  # noqa: F401  # isort: skip - before Numba is imported
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_READ, _KEEP, _DATA = (ir.IntType(32)(value) for value in (0, 3, 1))


def _prefetch(_: Any, array: Any, at: Any) -> Any:
    """Have the place of an array brought near. It may be outside of the array: nothing is read."""

    def prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, *(each.type for each in (_READ, _KEEP, _DATA))])
        loop = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind)
        builder.call(loop, [place, _READ, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(array, types.int64), prefetch


prefetch: Any = intrinsic(_prefetch)
