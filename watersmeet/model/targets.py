"""The names of targets outside of the home that results can be delivered to, and where their connectors are.

Each is `module:attribute` of a connector (`io/connectors/protocol.py`). A package that is installed may add its own, as
entry points of the group `watersmeet.sinks`. Connectors are looked up by name in tasks too, so that orders and
manifests only have names.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

GROUP = "watersmeet.sinks"
BUILT_IN = {
    "kafka": "watersmeet.io.connectors.kafka.target:CONNECTOR",
    "delta": "watersmeet.io.connectors.delta.connector:CONNECTOR",
    "postgres": "watersmeet.io.connectors.postgres.connector:CONNECTOR",
}
FOLDERS = ("delta",)  # named by a folder of this machine


@cache
def _installed() -> dict[str, str]:
    return {entry.name.lower(): entry.value for entry in entry_points(group=GROUP)}


def targets() -> dict[str, str]:
    """The connectors of targets, by the name that INTO has."""
    return {**_installed(), **BUILT_IN}
