"""`INTO delta 'folder' WITH (…)`."""

from __future__ import annotations

from pathlib import Path

from watersmeet.errors import ModelError
from watersmeet.io.connectors.delta.settings import DeltaSettings
from watersmeet.io.connectors.options import check_installed
from watersmeet.io.connectors.protocol import Sender, Target
from watersmeet.model import Output, Sink


class DeltaConnector:
    def check(self, query: str, sink: Sink, outputs: tuple[Output, ...]) -> None:
        check_installed(f"query {query}", "INTO delta", ["deltalake"], "delta")
        DeltaSettings.of(query, sink, [output.name for output in outputs])
        if not sink.path:
            raise ModelError(f"query {query}: INTO delta names no table", hint="write INTO delta 'folder'")
        folder = Path(sink.path)
        if outputs and folder.is_dir():
            from watersmeet.io.connectors.delta.schema import check_table

            check_table(query, folder, outputs)

    def open(self, sender: Sender) -> Target:
        from watersmeet.io.connectors.delta.target import DeltaTarget

        return DeltaTarget(sender)


CONNECTOR = DeltaConnector()
