"""A folder outside of the homes, which INTO names, has the results of one home: a file in it says of which.

Two homes that run the same pipeline would write the same results into it twice. The mark has the tag of the home, so
the home may be moved; a copy of it, whose original is still there, is another home.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.disk import sync, sync_entries
from watersmeet.home.identity import is_home_with
from watersmeet.io.sinks import is_outside
from watersmeet.model import Sink


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
            os.link(draft, mark)
        sync_entries([folder])
    except FileExistsError:
        check_owner(query, folder, sink, owner)
    finally:
        draft.unlink(missing_ok=True)


def _found(query: str, folder: Path, owner: Owner) -> Owner | None:
    """The mark of a folder that this home may use; None if it has none."""
    mark = folder / layout.OWNER
    try:
        raw = json.loads(mark.read_bytes())
        found = Owner(str(raw["tag"]), Path(str(raw["home"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise ModelError(
            f"query {query}: {mark} is damaged: {problem}",
            detail="It says which home writes its results into the folder.",
            hint="if no other home does, delete the file and start again",
        ) from None
    if found.tag == owner.tag:
        if str(found.home) != owner.place and is_home_with(found.home, owner.tag):
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
        hint=f"name another folder after INTO, or move this one away; to add to it nevertheless, delete {mark}",
    )
