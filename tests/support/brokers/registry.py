"""A schema registry's HTTP interface, as far as clients of schemas use it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    def __init__(self, login: str = "") -> None:
        self.schemas: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}
        self.login = login  # the header that requests have to have
        self.requests = 0
        self.address = ""

    def register(self, subject: str, schema: str) -> int:
        number = next((known for known, text in self.schemas.items() if text == schema), len(self.schemas) + 1)
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number


@contextmanager
def running_registry(login: str = "") -> Iterator[Registry]:
    registry = Registry(login)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = int(self.path.removeprefix("/schemas/ids/"))
            self._reply({"schema": registry.schemas[number]} if number in registry.schemas else None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            subject = self.path.removeprefix("/subjects/").removesuffix("/versions")
            self._reply({"id": registry.register(subject, body["schema"])})

        def _reply(self, content: object) -> None:
            registry.requests += 1
            allowed = not registry.login or self.headers.get("Authorization") == registry.login
            self.send_response(401 if not allowed else 404 if content is None else 200)
            self.end_headers()
            if allowed and content is not None:
                self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
