"""The owner of a result folder: a file in a folder that INTO names says which home writes its results there.

Two homes that run the same pipeline would write the same results into it twice. The mark has the tag of the home, so
the home may be moved; a copy of it, whose original is still there, is another home.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from watersmeet.errors import ModelError, StateError
from watersmeet.home import layout
from watersmeet.home.disk import sync, sync_entries
from watersmeet.home.lock import lock_folder
from watersmeet.home.manifest import load_newest, tag_of
from watersmeet.io.sinks import is_outside
from watersmeet.model import Sink

_MOVE = "name another folder after INTO, or move this one, or its result files, away"


@dataclass(frozen=True)
class Owner:
    """A home that writes results into folders."""

    tag: str
    home: Path

    @property
    def place(self) -> str:
        return os.path.realpath(self.home)

    def may_own(self, folder: Path, sink: Sink) -> bool:
        """Whether the folder is one that other homes could write into as well."""
        return bool(self.tag) and is_outside(sink) and not folder.is_relative_to(self.place)


def check_owner(query: str, folder: Path, sink: Sink, owner: Owner) -> None:
    """Reject a folder with results of another home. Writes nothing."""
    if owner.may_own(folder, sink):
        _found(query, folder, owner)


def claim(query: str, folder: Path, sink: Sink, owner: Owner) -> None:
    """Mark the folder, which exists, as one with results of this home; of two that do this at once, one fails."""
    if not owner.may_own(folder, sink):
        return
    mark = folder / layout.OWNER
    with _alone(query, folder):
        found = _found(query, folder, owner)
        if found == Owner(owner.tag, Path(owner.place)):
            return
        draft = layout.owner_draft(folder, secrets.token_hex(4))
        try:
            with draft.open("w") as file:
                json.dump({"tag": owner.tag, "home": owner.place}, file)
            sync(draft)
            if found is not None:  # it was moved, or the one before has left nothing here
                draft.replace(mark)
            else:
                with contextlib.suppress(FileExistsError):
                    os.link(draft, mark)
            sync_entries([folder])
        finally:
            draft.unlink(missing_ok=True)
        _found(query, folder, owner)  # where folders cannot be locked, another home may have marked it as well


@contextlib.contextmanager
def _alone(query: str, folder: Path) -> Iterator[None]:
    """No other home looks for a mark and writes one meanwhile, unless the file system does not lock folders."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if lock_folder(handle) is None:
            raise ModelError(
                f"query {query}: another process has locked {folder}",
                detail="Perhaps another home is about to write its results there.",
                hint="name another folder after INTO; or start again",
            )
        yield
    finally:
        os.close(handle)


def _found(query: str, folder: Path, owner: Owner) -> Owner | None:
    """The mark of a folder that this home may use; None if it has none."""
    mark = folder / layout.OWNER
    try:
        raw = json.loads(mark.read_bytes())
        found = Owner(str(raw["tag"]), Path(str(raw["home"])))
    except (FileNotFoundError, NotADirectoryError):
        _check_unmarked(query, folder, owner)
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise ModelError(
            f"query {query}: {mark} is damaged: {problem}",
            detail="It says which home writes its results into the folder.",
            hint="if no other home does, delete the file and start again",
        ) from None
    if found.tag == owner.tag:
        if str(found.home) != owner.place and _is_home_with(found.home, owner.tag):
            raise ModelError(
                f"query {query}: {folder} has the results of the home {found.home}, of which {owner.home} is a copy",
                detail="Both would write the same results into it.",
                hint="name another folder after INTO; or delete the home that is not used any more",
            )
        return found
    if layout.is_home(found.home):
        raise ModelError(
            f"query {query}: {folder} has the results of another home: {found.home}",
            detail="The results of two homes would be mixed in it.",
            hint=f"name another folder after INTO, or run with --home {found.home}",
        )
    with contextlib.suppress(OSError):
        if not any(layout.tick_of(name) is not None for name in os.listdir(folder)):
            return found
    raise ModelError(
        f"query {query}: {folder} has the results of another home, {found.home}, which is not there any more",
        detail="A new home reads the input from its beginning, and would add the same results once more.",
        hint=_MOVE,
    )


def _is_home_with(home: Path, tag: str) -> bool:
    """Whether a folder is a home that has this tag, as far as that can be seen."""
    with contextlib.suppress(OSError, StateError):
        return layout.is_home(home) and tag_of(home, load_newest(home)) == tag
    return False


def _check_unmarked(query: str, folder: Path, owner: Owner) -> None:
    """Earlier versions have marked no folder, and a mark may be deleted: the names of results say whose they are."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    other = next((name for name in names if layout.is_of_another_home(name, owner.tag)), None)
    if other is not None:
        raise ModelError(
            f"query {query}: {folder} has the results of another home: {other}",
            detail=f"It is not known of which one: there is no file {layout.OWNER}, which its next start writes. "
            "The results of two homes would be mixed in the folder.",
            hint=_MOVE,
        )
