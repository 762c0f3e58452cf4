"""Paths of this machine: which may be the folder of a home, or of results."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from watersmeet.errors import StateError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # a Path has one slash of s3://bucket
_FILE = re.compile(r"file:(?://[^/]*)?(?=/)", re.IGNORECASE)
_OF_THE_KERNEL = ("/proc", "/sys")  # where no disk is; but something may be mounted below
_LONGEST = 3800  # bytes: what is inside of the folder needs some of the 4,096 of a path


def is_address(path: str) -> bool:
    """Whether a path is a URL, which names no folder of this machine."""
    return bool(_SCHEME.match(path))


def local_path(path: str) -> str | None:
    """The path of this machine that a path or a file: URL names; None for all other URLs."""
    if found := _FILE.match(path):
        return unquote(path[found.end() :])
    return None if is_address(path) else path


def unusable(path: str) -> str:
    """Why no folder can have this path, or nothing. A folder that only does not exist yet can."""
    if "\0" in path:
        return "the path has a NUL character"
    if len(os.fsencode(os.path.abspath(path))) > _LONGEST:
        return "the path is too long"
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        return "a part of the path is a file, not a folder"
    except PermissionError:
        pass  # said when it is used: it may be another user's
    except (OSError, ValueError) as problem:  # ValueError: characters that the file system cannot have
        return str(getattr(problem, "strerror", None) or problem)
    if os.path.islink(path) and not os.path.exists(path):
        return f"it is a link to {os.readlink(path)}, which does not exist"
    return "" if os.path.exists(path) else _nothing_new(os.path.abspath(path))


def _nothing_new(path: str) -> str:
    """Why nothing can be made at a path, as far as that can be seen without trying, or nothing."""
    above = next(str(folder) for folder in Path(path).parents if os.path.exists(folder))
    for folder in _OF_THE_KERNEL:
        if os.path.exists(folder) and os.stat(folder).st_dev == os.stat(above).st_dev != os.stat("/").st_dev:
            return f"no folder can be made in {folder}"
    return "the file system is read-only" if os.statvfs(above).f_flag & os.ST_RDONLY else ""


def home_at(home: str | Path) -> Path:
    """The folder of a home; raises StateError for what cannot be one."""
    named = str(home)
    if is_address(named):
        local = local_path(named)
        written = re.sub(r":/(?!/)", "://", named, count=1)
        raise StateError(
            f"the home cannot be {written}: it is a URL",
            detail="A home is a folder of this machine.",
            hint=f"name the folder: {local}" if local else "name a folder; a mounted one serves too",
        )
    if reason := unusable(named):
        raise StateError(f"the home cannot be {named!r}: {reason}", hint="name another folder, or make this one usable")
    if os.path.exists(named) and not os.path.isdir(named):
        raise StateError(f"the home cannot be {named}: it is a file", hint="name a folder, or one that does not exist")
    return Path(home).absolute()
