"""The process from which Spark forks its Python workers, with everything expensive imported before the fork.

Named by `spark.python.daemon.module`; a session that does not name it works too, with a slower first tick. Importing
the workers also loads the compiled loops.
"""

import gc
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path


def _without_zips(paths: list[str]) -> list[str]:
    """The paths without Spark's own pyspark.zip and py4j, if the same release is installed beside them.

    Modules in a zip are compiled at each import, which takes half a second of every start."""
    others = [path for path in paths if not path.endswith(".zip")]
    installed = PathFinder.find_spec("pyspark", others)
    ours = next((path for path in paths if path.endswith("pyspark.zip")), None)
    if installed is None or installed.origin is None or ours is None or PathFinder.find_spec("py4j", others) is None:
        return paths
    try:
        version = zipfile.ZipFile(ours).read("pyspark/version.py")
        same = Path(installed.origin).with_name("version.py").read_bytes() == version
    except (OSError, KeyError, zipfile.BadZipFile):
        return paths
    return [path for path in paths if Path(path).parent != Path(ours).parent] if same else paths


sys.path[:] = _without_zips(sys.path)

import duckdb  # noqa: E402, F401
import pyarrow.dataset  # noqa: E402, F401 - which DuckDB imports when it first reads Arrow data
from pyspark import daemon  # noqa: E402

import watersmeet.runtime.exec.resident_task  # noqa: E402
import watersmeet.runtime.feed.batches  # noqa: E402, F401

if __name__ == "__main__":
    # What is imported is shared with the workers until one of them writes to it, as a full collection does.
    gc.collect()
    gc.freeze()
    daemon.manager()
