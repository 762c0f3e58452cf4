"""The process from which Spark forks its Python workers, with everything expensive imported before the fork.

Named by `spark.python.daemon.module`; a session that does not name it works too, with a slower first tick. Importing
the workers also loads the compiled loops.
"""

import duckdb  # noqa: F401
from pyspark import daemon

import watersmeet.runtime.exec.resident
import watersmeet.runtime.feed.batches  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
