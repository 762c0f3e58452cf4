"""What a tick has freed stays with the process of a task, up to a share of what the task may have."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="glibc has the settings"
)

_PROGRAM = """
import resource, sys
import numpy as np, pyarrow as pa
from watersmeet.runtime.exec.freed_memory import keep_freed

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

def work():
    arrays = [np.ones(1 << 18) for _ in range(16)]  # 2 MB each: for more, NumPy asks for huge pages
    buffers = [pa.array(each).cast(pa.int64()) for each in arrays]

keep_freed(int(sys.argv[1]))
for _ in range(3):
    work()
before = faults()
work()
again = faults() - before
base = resident()
blocks = [np.ones(1 << 17) for _ in range(400)]  # 400 MB, each block less than what is mapped for itself
del blocks
print(again, resident() - base, pa.default_memory_pool().backend_name)
"""


def _measured(megabytes: int, **environment: str) -> tuple[int, int, str]:
    made = {name: value for name, value in os.environ.items() if "MALLOC" not in name and name != "GLIBC_TUNABLES"}
    made.pop("ARROW_DEFAULT_MEMORY_POOL", None)
    command = [sys.executable, "-c", _PROGRAM, str(megabytes)]
    found = subprocess.run(command, env={**made, **environment}, capture_output=True, text=True, check=True)
    faults, more, pool = found.stdout.split()
    return int(faults), int(more), pool


def test_a_second_piece_of_work_asks_the_system_for_no_memory() -> None:
    faults, more, pool = _measured(4096)
    assert faults < 2000, "64 MB are 16,384 pages"
    assert more <= 256 + 64
    assert pool == "system"


def test_a_task_with_little_memory_keeps_little() -> None:
    _, more, _ = _measured(512)
    assert more <= 32 + 8, "a 16th, and what it grows by"


def test_what_a_user_has_set_stays() -> None:
    faults, _, pool = _measured(4096, MALLOC_MMAP_THRESHOLD_="131072")
    assert faults > 5000
    assert pool != "system"
