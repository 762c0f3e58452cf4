"""What a tick has freed stays with the process of a task, because the next tick needs as much again.

The C library gives large arrays back to the system one by one, and Arrow's own allocator does so after a while. Then
each tick has all its memory mapped and zeroed anew, page by page, which takes a sixth of the CPU time of a join of
large ticks. So the process keeps up to a 16th of what a task may have, and Arrow shares it. Arrays that are larger than
that, or than 32 MB, are still given back at once. Only glibc has these settings; what a user has set stays.
"""

from __future__ import annotations

import ctypes
import os

import pyarrow as pa

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)
_MOST = 256 << 20
_LARGEST = 32 << 20  # more is not accepted
_SHARE = 16
_AT_ONCE = 4  # the share of what is kept by which the heap grows

_kept: dict[int, int] = {}  # bytes by process: one that is forked begins anew


def keep_freed(task_megabytes: int) -> None:
    """Keep what this process frees for its later work, as far as a task with so much memory may; 0: no limit."""
    kept = min(_MOST, (task_megabytes << 20) // _SHARE) if task_megabytes else _MOST
    if _kept.get(os.getpid()) == kept or _is_set_by_user():
        return
    _kept[os.getpid()] = kept
    program = ctypes.CDLL(None)
    if not hasattr(program, "gnu_get_libc_version"):
        return
    settings = {_TRIM_THRESHOLD: kept, _TOP_PAD: kept // _AT_ONCE, _MMAP_THRESHOLD: min(_LARGEST, kept)}
    if all([program.mallopt(name, value) for name, value in settings.items()]):
        pa.set_memory_pool(pa.system_memory_pool())


def _is_set_by_user() -> bool:
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "ARROW_DEFAULT_MEMORY_POOL")
    return any(name in os.environ for name in names) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
