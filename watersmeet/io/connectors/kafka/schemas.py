"""Avro schemas: from a file, or from a schema registry by its HTTP interface."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any

from watersmeet.errors import InputError, ModelError

_SECONDS = 10
_FOR_EVER = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


class Schemas:
    def __init__(self, own: dict[str, str]) -> None:
        self.registry = own.get("schema.registry.url", "").rstrip("/")
        self._login = own.get("schema.registry.basic.auth.user.info", "")
        self._by_id: dict[int, Any] = {}
        self.file = _parsed(_read(own["schema"])) if own.get("schema") else None

    def writer(self, number: int | None) -> Any:
        """The schema that a message was written with, by the id in its frame."""
        if not self.registry or number is None:
            if self.file is None:
                raise InputError(
                    "messages without a frame need the option schema",
                    hint="give schema = 'file.avsc', or remove framing = 'none'",
                )
            return self.file
        if number not in self._by_id:
            found = self._request(f"/schemas/ids/{number}")
            if found is None:
                raise ValueError(f"the registry has no schema {number}")
            self._by_id[number] = _parsed(found["schema"])
        return self._by_id[number]

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema in the registry, which gets it if it is new."""
        found = self._request(f"/subjects/{subject}/versions", {"schema": schema})
        if found is None:
            raise ModelError(f"the schema registry {self.registry} has no interface for subjects")
        return int(found["id"])

    def _request(self, path: str, body: dict[str, str] | None = None) -> Any:
        """What the registry replies; None where it has nothing of that name."""
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.registry + path, content)
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        if self._login:
            request.add_header("Authorization", "Basic " + base64.b64encode(self._login.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as problem:
            with problem:
                if problem.code == HTTPStatus.NOT_FOUND:
                    return None
                if problem.code in _FOR_EVER:
                    raise ModelError(
                        f"the schema registry {self.registry} rejects {path}: {problem.code} {problem.reason}",
                        hint="check schema.registry.basic.auth.user.info and the compatibility of the subject",
                    ) from None
            raise ConnectionError(f"the schema registry {self.registry}: {problem.code} {problem.reason}") from None
        except urllib.error.URLError as problem:
            raise ConnectionError(f"the schema registry {self.registry}: {problem.reason}") from None


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as problem:
        raise ModelError(f"the schema {path} cannot be read: {problem.strerror}") from None


def _parsed(text: str) -> Any:
    from fastavro import parse_schema

    try:
        return parse_schema(json.loads(text))
    except Exception as problem:
        raise ModelError(f"this is not an Avro schema: {text[:100]}", detail=str(problem)) from None
