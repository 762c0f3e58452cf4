"""One query fails while it runs: it is suspended with the reason, and the others have the oracle's results."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.poisoned import Poisoned
from watersmeet.model import Sink

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
PLAIN = f"SELECT l.id AS a, r.id AS b {JOIN}"


def test_folder_replaced_by_a_file(tmp_path: Path) -> None:
    poisoned, folder = Poisoned(tmp_path), tmp_path / "out"
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    poisoned.live()
    shutil.rmtree(folder)
    folder.write_text("in the way")
    poisoned.live()
    assert str(folder) in poisoned.reason()
    poisoned.live()
    poisoned.check()
