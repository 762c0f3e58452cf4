"""Spark's logs of input that was moved are on the disk when they are rewritten (tests/cli/test_run.py has the rest)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.faults.power import Image, PowerLayer
from watersmeet.home import layout
from watersmeet.model import Column, Source, Stream
from watersmeet.runtime.feed.moved_input import follow_moved_input


def test_a_loss_of_power_leaves_no_log_with_the_checksum_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, now = tmp_path / "root" / "home", tmp_path / "moved" / "input"
    now.mkdir(parents=True)
    logs = [layout.source_log(home, "0", 0, number) for number in range(2)]
    logs[0].parent.mkdir(parents=True)
    for log in logs:
        entry = {"path": f"file://{tmp_path}/gone/input/{log.name}.json", "timestamp": 1, "batchId": 0}
        log.write_text(f"v1\n{json.dumps(entry)}")
        log.with_name(f".{log.name}.crc").write_bytes(b"crc")
    stream = Stream("s", (Column("ts", "timestamp"),), "ts", source=Source("json", str(now)))
    layer, real = PowerLayer(tmp_path / "root"), Path.rename
    before: list[Image] = []

    def rename(path: Path, target: Path) -> Path:
        before.append(layer.after_cut())
        return real(path, target)

    with layer.active(), monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename)
        follow_moved_input(home, "0", 0, stream, str)
        image = layer.after_cut()
    assert len(before) == 2 and not [name for one in (*before, image) for name in one if name.endswith(".crc")]
    for log in logs:
        content = image[str(log.relative_to(tmp_path / "root"))] or b""
        assert json.loads(content.splitlines()[1])["path"] == f"file://{now}/{log.name}.json"
