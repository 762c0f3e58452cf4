"""The files of a commit: the manifest, what it seals, results that appear, and state that nothing names any more.

With `durability=power` what a manifest names is on the disk before the manifest is (`home/disk.py`). Renames that make
results appear reach the disk beside the next tick, and before the next manifest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from watersmeet import points
from watersmeet.home import layout
from watersmeet.home.dependencies import MarkedLog, seals
from watersmeet.home.disk import SyncBeside
from watersmeet.home.manifest import Manifest, ResultFile, commit
from watersmeet.home.recovery import discard, discard_staged, named_files, publish, superfluous, sync_published


class Committer:
    def __init__(self, home: Path, newest: Manifest) -> None:
        self.home = home
        self._named = named_files([newest])
        self._changes = MarkedLog(home / layout.CHANGES)
        self._unused = superfluous(home, newest)  # files that only the manifest before the newest names
        self._renames = SyncBeside()
        self._troubled: dict[str, str] = {}  # queries whose results of the tick before may not be on the disk, and why

    def sealed(self, manifest: Manifest) -> Manifest:
        """The manifest with marks of the files beside it that results depend on. None of them may be written now."""
        return replace(manifest, changes=self._changes.mark(), parts=seals(self.home))

    def commit(self, manifest: Manifest) -> None:
        self._troubled = self._renames.wait()
        commit(self.home, manifest)

    def publish(
        self, manifest: Manifest, staged: Iterable[ResultFile], unused: list[str], durable: bool
    ) -> dict[str, str]:
        """After a commit: results appear, and files are deleted that neither this manifest nor the one before names.

        Returns the queries whose results cannot appear, or be forced to disk, and why."""
        discard_staged(manifest, staged)
        points.reach("publish.before")
        lost = publish(manifest)
        if durable and manifest.results:
            self._renames.begin(functools.partial(sync_published, self.home, manifest))
        discard(self.home, [*self._unused, *(file for file in unused if file not in self._named)])
        self._unused = [file for file in unused if file in self._named]
        self._named = named_files([manifest])
        return {**self._troubled, **lost}

    def close(self) -> None:
        self._renames.close()
