"""A hook of MkDocs: pages outside of docs/ become pages of the site, and links stay right in both places.

Links are written as they work in the repository. On the site the README is the index, and a link to a file that is no
page, such as a test, becomes its text: the site has no source code.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
OTHER_NAMES = {"README.md": "index.md", "examples/README.md": "examples.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def outside_pages() -> dict[str, str]:
    """Where each page outside of docs/ is on the site."""
    root = {path.name: path.name.lower() for path in ROOT.glob("*.md")}
    return {**root, **OTHER_NAMES}


def on_files(files: Files, config: Any) -> Files:
    for source, place in outside_pages().items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    here = page.file.src_uri
    sources = {place: source for source, place in outside_pages().items()}
    folder = posixpath.dirname(sources.get(here, DOCS + here))

    def moved(match: re.Match[str]) -> str:
        picture, text, link = match.groups()
        file, mark, anchor = link.partition("#")
        if not file or re.match(r"\w+:", link):
            return match[0]
        target = place_of(posixpath.normpath(posixpath.join(folder, file)), files)
        if target is None:
            return text
        return f"{picture}[{text}]({posixpath.relpath(target, posixpath.dirname(here) or '.')}{mark}{anchor})"

    return LINK.sub(moved, markdown)


def place_of(path: str, files: Files) -> str | None:
    """The site's name of a file or folder of the repository, None if it has none."""
    for candidate in (path, f"{path}/README.md"):
        place = outside_pages().get(candidate, candidate.removeprefix(DOCS))
        if (candidate in outside_pages() or candidate.startswith(DOCS)) and files.get_file_from_path(place):
            return place
    return None
