"""A table environment of Flink on this machine, in streaming mode: a task a core, times in UTC."""

from __future__ import annotations

import os
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def streaming(state: Path, settings: dict[str, str]) -> TableEnvironment:
    """`state` is the folder of its checkpoints."""
    configuration = Configuration()
    for name, value in {
        "parallelism.default": str(os.cpu_count()),
        "taskmanager.numberOfTaskSlots": str(os.cpu_count()),
        "execution.checkpointing.dir": f"file://{state}",
        "table.local-time-zone": "UTC",
        # On a busy machine a job of many queries takes longer to submit than its ten seconds.
        "pekko.ask.timeout": "600 s",
        "heartbeat.timeout": "600 s",
        **settings,
    }.items():
        configuration.set_string(name, value)
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
