"""Folders for sockets have short paths, whatever the folder for temporary files is."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from watersmeet import socket_folder
from watersmeet.errors import RunError


def test_a_long_temporary_folder_is_left_for_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = socket_folder.make_socket_folder()
    try:
        assert len(folder) <= 60
        assert os.stat(folder).st_mode & 0o077 == 0
        assert list(long.iterdir()) == []
    finally:
        shutil.rmtree(folder)
    monkeypatch.setattr(socket_folder, "_SHORT", str(long))
    with pytest.raises(RunError, match="too long for sockets"):
        socket_folder.make_socket_folder()
