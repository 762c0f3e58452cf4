"""A reader that gives the names of files where Spark would give a DataFrame, for callables of `foreach_tick`."""

from __future__ import annotations


class FilesAsFrames:
    """In place of Spark, which the callable of a test does not need."""

    @property
    def read(self) -> FilesAsFrames:
        return self

    def format(self, kind: str) -> FilesAsFrames:
        return self

    def schema(self, columns: object) -> FilesAsFrames:
        return self

    def option(self, name: str, value: object) -> FilesAsFrames:
        return self

    def load(self, files: list[str]) -> list[str]:
        return files
