"""Markdown pages as the tests need them: lines of prose, headings, links, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "watersmeet" / "cli" / "sample_project"


@dataclass(frozen=True)
class Block:
    """A fenced block of code. `comment` is the HTML comment on the line above it, such as `fragment`."""

    language: str
    text: str
    comment: str = ""


@dataclass(frozen=True)
class Page:
    path: Path
    prose: tuple[tuple[int, str], ...]  # number and text of each line outside of code and comments, tables included
    blocks: tuple[Block, ...]

    @property
    def anchors(self) -> set[str]:
        """The anchors that headings get, in the repository's view and on the site."""
        headings = [match[1] for _, line in self.prose if (match := re.match(r"#+ (.*)", line))]
        return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).lower()).replace(" ", "-") for text in headings}

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.prose)

    @property
    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", self.text))

    @property
    def code(self) -> list[str]:
        """What stands in backticks."""
        return re.findall(r"`([^`]+)`", self.text)


def all_pages() -> list[Path]:
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "examples" / "README.md",
        *sorted(SAMPLES.rglob("*.md")),
    ]


@cache
def read(path: Path) -> Page:
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    language, comment, block = "", "", list[str]()
    inside: str = ""  # "code" or "comment"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if inside == "code":
            if line.strip() == "```":
                blocks.append(Block(language, "\n".join(block), comment))
                inside, comment = "", ""
            else:
                block.append(line)
        elif inside == "comment" or line.lstrip().startswith("<!--"):
            inside = "" if "-->" in line else "comment"
            comment = line.strip().removeprefix("<!--").removesuffix("-->").strip()
        elif opening := re.match(r"\s*```(\w*)$", line):
            inside, language, block = "code", opening[1], []
        else:
            prose.append((number, line))
            comment = comment if not line.strip() else ""
    assert not inside, f"{path}: {inside} without an end"
    return Page(path, tuple(prose), tuple(blocks))


def commands(page: Page) -> Iterator[str]:
    """Commands as a reader would type them: in backticks, in blocks of shell and in indented code."""
    yield from (text for text in page.code if "\n" not in text)
    for block in page.blocks:
        if block.language == "sh":
            yield from re.split(r"\n|&&|\|", block.text)
    yield from (part for _, line in page.prose if line.startswith("    ") for part in re.split(r"&&|\|", line))
