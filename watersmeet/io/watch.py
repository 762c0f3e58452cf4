"""What the operating system reports of changes in folders, so that nobody has to list them to find a new file.

Linux has this (inotify), for file systems of this machine: what another machine writes into a shared folder is not
reported. Where it is not to be had, folders are looked at by their dates, see listing.py.

A file that is being written is reported when its writer closes it, or after `_OPEN` seconds, whichever is first. So a
file that is written at its place is not read too early, as long as that takes no longer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

_OPEN = 1.0
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay"})

_CLOSED, _MOVED_TO, _CREATED, _MOVE_SELF = 0x8, 0x80, 0x100, 0x800
_GONE = 0x2000 | 0x8000 | _MOVE_SELF  # unmounted, no longer watched, moved elsewhere
_OVERFLOW, _ONLY_FOLDERS, _IS_FOLDER = 0x4000, 0x0100_0000, 0x4000_0000
_WANTED = _CLOSED | _MOVED_TO | _CREATED | _MOVE_SELF | _ONLY_FOLDERS
_EVENT = struct.Struct("iIII")  # number of the folder, what, cookie, length of the name


@dataclass(eq=False)
class Followed:
    """A folder that is watched, and what has changed in it since it was asked."""

    path: str
    identity: tuple[int, int]  # of the folder, whoever has its name by now
    number: int
    is_sure: bool = True  # False: more may have changed than is known
    _names: dict[str, float] = field(default_factory=dict)  # when they are to be looked at, on the monotonic clock

    def take(self) -> list[str]:
        now = time.monotonic()
        ready = [name for name, due in self._names.items() if due <= now]
        for name in ready:
            del self._names[name]
        return ready

    def hear(self, name: str, what: int) -> None:
        if what & _CREATED and not what & _IS_FOLDER and self._is_open(name):
            self._names.setdefault(name, time.monotonic() + _OPEN)
        else:
            self._names[name] = 0.0

    def _is_open(self, name: str) -> bool:
        """Whether a new name may be of a file that is being written; a link is there at once."""
        try:
            found = os.lstat(os.path.join(self.path, name))
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


class FolderWatch:
    """The watched folders of a feed. It is used by one thread."""

    def __init__(self) -> None:
        self._followed: dict[int, list[Followed]] = {}  # by number: two streams may read one folder
        self._is_local: dict[int, bool] = {}  # by device
        self._events = _open_events()

    def follow(self, path: str, found: os.stat_result) -> Followed | None:
        """Hear of the changes in a folder from now on; None where that cannot be."""
        if self._events is None or not self._on_this_machine(found.st_dev):
            return None
        number = _libc.inotify_add_watch(self._events, os.fsencode(path), _WANTED)
        if number < 0:  # there are too many, or it is gone
            return None
        followed = Followed(path, (found.st_dev, found.st_ino), number)
        self._followed.setdefault(number, []).append(followed)
        return followed

    def forget(self, followed: Followed) -> None:
        others = self._followed.get(followed.number, [])
        if followed in others:
            others.remove(followed)
            if not others:
                del self._followed[followed.number]
                _libc.inotify_rm_watch(self._events, followed.number)  # it may be gone already

    def hear(self) -> None:
        """Have every folder know what has changed in it."""
        for number, what, name in self._heard():
            if what & _OVERFLOW:
                for some in self._followed.values():
                    for followed in some:
                        followed.is_sure = False
            for followed in self._followed.get(number, ()):
                if what & _GONE:
                    followed.is_sure = False
                elif name:
                    followed.hear(name, what)

    @property
    def bells(self) -> list[int]:
        """The file descriptor that can be read when something has changed, if there is one."""
        return [] if self._events is None else [self._events]

    def close(self) -> None:
        """The folders of a feed share a watch: the first one closes it."""
        if self._events is not None:
            os.close(self._events)
        self._events = None

    def _heard(self) -> Iterator[tuple[int, int, str]]:
        while self._events is not None:
            try:
                content = os.read(self._events, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at < len(content):
                number, what, _, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size + length
                yield number, what, os.fsdecode(content[at - length : at].rstrip(b"\0"))

    def _on_this_machine(self, device: int) -> bool:
        if device not in self._is_local:
            self._is_local[device] = _kind_of(device) in _LOCAL
        return self._is_local[device]


_libc = ctypes.CDLL(None, use_errno=True)


def _open_events() -> int | None:
    """None where the system has no such thing, or the user has too many."""
    if not hasattr(_libc, "inotify_init1"):
        return None
    number = int(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    return number if number >= 0 else None


def _kind_of(device: int) -> str:
    """The kind of a file system, of which the system only tells the names of those that are mounted."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for mount in mounts:
            words = mount.split()
            if words[2] == wanted:
                return words[words.index("-") + 1]
    return ""
