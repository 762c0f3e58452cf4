"""Folders for Unix sockets: private, and with a short path, since the name of a socket has at most 107 bytes."""

from __future__ import annotations

import os
import tempfile

from watersmeet.errors import RunError

_LONGEST = 60  # bytes: Spark adds 42
_SHORT = "/tmp"


def make_socket_folder() -> str:
    """A new folder that only this user may enter. Whoever makes it removes it."""
    for parent in (None, _SHORT):
        try:
            folder = tempfile.mkdtemp(prefix="watersmeet-", dir=parent)
        except OSError:
            continue
        if len(os.fsencode(folder)) <= _LONGEST:
            return folder
        os.rmdir(folder)
    raise RunError(
        f"the path of the folder for temporary files is too long for sockets: {tempfile.gettempdir()}",
        hint=f"set the environment variable TMPDIR to a folder with at most {_LONGEST - 20} characters",
    )
