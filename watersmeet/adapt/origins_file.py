"""`slices.json` in the home: by which queries each slice store was founded, also if they are gone; and the form that
was chosen for each query that has several, and the one that it is leaving.

What a store holds follows from its founders. Without the file, or where they are not valid any more, queries that read
such a store read another one from then on, and answer the windows that begin after the rows so far.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from watersmeet.errors import WatersmeetError
from watersmeet.home import layout
from watersmeet.home.sealed import read_sealed, write_sealed
from watersmeet.model import Query
from watersmeet.windows.protocol import StoredWindows
from watersmeet.windows.slices.plan import SliceOrigin, SliceOrigins


def remember_windows(home: Path, windows: StoredWindows, before: StoredWindows) -> None:
    """Write down origins and forms, if they are others than before."""
    origins: SliceOrigins = windows.origins
    if (origins, windows.forms, windows.leaving) == (before.origins, before.forms, before.leaving):
        return
    numbers: dict[SliceOrigin, int] = {}
    stores = {store: numbers.setdefault(founded, len(numbers)) for store, founded in origins.items()}
    groups = [
        {"salt": founded.salt, "queries": [[query.name, query.sql, query.form.kind] for query in founded.queries]}
        for founded in numbers
    ]
    forms = {"forms": dict(windows.forms), "leaving": dict(windows.leaving)}
    write_sealed(home / layout.SLICES, {"stores": stores, "founders": groups, **forms})


def recall_windows(home: Path, build: Callable[[str, str], Query]) -> StoredWindows:
    """`build` makes a query of its name and text."""
    try:
        found = read_sealed(home / layout.SLICES)
        groups = [SliceOrigin(_built(one["queries"], build), str(one["salt"])) for one in found["founders"]]
        stores = {str(store): groups[number] for store, number in found["stores"].items() if groups[number].queries}
        forms, leaving = (
            {str(query): str(kind) for query, kind in found.get(part, {}).items()} for part in ("forms", "leaving")
        )
        return StoredWindows(stores, forms=forms, leaving=leaving, has_first_forms="forms" not in found)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return StoredWindows()


def _built(group: list[list[str]], build: Callable[[str, str], Query]) -> tuple[Query, ...]:
    try:
        queries = [_in_form(build(name, text), *kind) for name, text, *kind in group]
    except WatersmeetError:
        return ()
    return tuple(query.definition for query in queries if query.is_windowed)


def _in_form(query: Query, kind: str = "") -> Query:
    """The query in the form that a store was founded for; without its kind, in the first one."""
    return query.in_form(query.by_kind.get(kind, query.form))
