"""The engine of a long run, with bounds that some thousand ticks reach: `python -m tests.long.program HOME SCRIPT`.

For every line of its input it prints what only the process itself knows, and it ends with its input."""

from __future__ import annotations

import gc
import json
import sys
import threading
from pathlib import Path

from watersmeet import Engine
from watersmeet.adapt import decisions, measure
from watersmeet.control import change_log
from watersmeet.home import tick_log
from watersmeet.io import positions, taken_files

REMEMBERED_FILES = 150
REMEMBERED_FILTERS = 8
LONGEST_TICK_LOG = 32_768  # bytes
LONGEST_POSITIONS = 16_384
LONGEST_OTHER_LOG = 4_096


def figures(engine: Engine) -> dict[str, int]:
    jvm = engine.spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()
    heap = jvm.java.lang.Runtime.getRuntime()
    gc.collect()
    return {
        "heap of Java": int(heap.totalMemory()) - int(heap.freeMemory()),
        "objects of Python": len(gc.get_objects()),
        "threads of the driver": threading.active_count(),
    }


def main() -> None:
    taken_files.REMEMBERED = REMEMBERED_FILES
    measure.REMEMBERED = REMEMBERED_FILTERS
    tick_log._LONGEST_LOG = LONGEST_TICK_LOG
    positions._LONG = LONGEST_POSITIONS
    decisions._LONGEST = change_log.LONGEST_LOG = LONGEST_OTHER_LOG
    home, script = map(Path, sys.argv[1:])
    with Engine(home=home, tick="1 millisecond") as engine:
        engine.sql(script.read_text(), script)
        engine.start()
        print("started", flush=True)
        for _ in sys.stdin:
            print(json.dumps(figures(engine)), flush=True)


if __name__ == "__main__":
    main()
