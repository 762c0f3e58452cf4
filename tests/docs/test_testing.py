"""docs/testing.md names every file with tests that ./run test leaves out."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT
from tests.tiers import TIERS

LEFT_OUT = re.compile(r"mark\.(thorough|soak|semantics)\b")


def test_what_moved_to_other_tiers_is_listed() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    moved = [name for name in files if LEFT_OUT.search((ROOT / name).read_text())]
    assert len(moved) > 20
    assert [name for name in moved if name not in page and not name.startswith("tests/semantics/")] == []


def test_every_tier_is_described() -> None:

    page = (ROOT / "docs" / "testing.md").read_text()
    assert [tier.name for tier in TIERS if f"`./run test-{tier.name}`" not in page] == []
