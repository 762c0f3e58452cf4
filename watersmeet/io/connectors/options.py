"""The options of a connector: a closed list. What is unknown is rejected with the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from watersmeet.errors import ModelError
from watersmeet.model.secrets import HINT, is_secret, referenced

_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1


@dataclass(frozen=True)
class Option:
    name: str
    default: str = ""
    check: Callable[[str], str] = lambda value: ""  # the hint for an invalid value, or nothing
    is_required: bool = False


@dataclass(frozen=True)
class OptionTable:
    """All options of a connector. `passed` are options of a library that a connector hands over as they are; `prefix`
    begins the names of options that are about a column each."""

    kind: str
    options: tuple[Option, ...]
    passed: Collection[str] = ()
    prefix: str | None = None

    def check(self, whose: str, given: tuple[tuple[str, str], ...]) -> None:
        """Reject what is unknown, invalid or missing. `whose`: "query q" or "stream s"."""
        known = {option.name: option for option in self.options}
        for name, value in given:
            is_about_a_column = self.prefix is not None and name.startswith(self.prefix)
            if name not in known and name not in self.passed and not is_about_a_column:
                self._unknown(whose, name)
            if is_secret(name) and referenced(value) is None:
                raise ModelError(
                    f"{whose}: the option {name} is a secret",
                    detail="A value that is written here would be stored in the home and shown in errors.",
                    hint=HINT,
                )
            if name in known and referenced(value) is None and (advice := known[name].check(value)):
                raise ModelError(f"{whose}: the option {name} cannot be {value!r}", hint=advice)
        for option in self.options:
            if option.is_required and option.name not in dict(given):
                hint = f"write WITH ('{option.name}' = …)"
                raise ModelError(f"{whose}: {self.kind} needs the option {option.name}", hint=hint)

    def _unknown(self, whose: str, name: str) -> None:
        names = [option.name for option in self.options]
        folded = {known.lower(): known for known in (*names, *self.passed)}
        close = difflib.get_close_matches(name.lower(), folded, 1)
        raise ModelError(
            f"{whose}: unknown option {name} for {self.kind}",
            detail=f"Options: {', '.join(sorted(names)) or 'none'}.",
            hint=f"did you mean {folded[close[0]]}?" if close else "",
        )

    def own(self, values: Mapping[str, str]) -> dict[str, str]:
        """The connector's own options, with defaults."""
        return {option.name: values.get(option.name, option.default) for option in self.options}

    def handed_over(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in values.items() if name in self.passed}


def one_of(*choices: str) -> Callable[[str], str]:
    return lambda value: "" if value in choices else f"use one of {', '.join(choices)}"


def number(value: str) -> str:
    return "" if _is_number(value, _LARGEST_LONG) and int(value) > 0 else "use a number above 0"


def count(value: str) -> str:
    """Of things that an int of Java counts."""
    return "" if _is_number(value, _LARGEST_INT) and int(value) > 0 else "use a number from 1 to 2147483647"


def _is_number(value: str, largest: int) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= len(str(largest)) and int(value) <= largest


def number_or_zero(value: str) -> str:
    return "" if _is_number(value, _LARGEST_INT) else "use a whole number; 0 switches it off"


def columns_in(query: str, option: str, text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Columns of a query that an option lists, with commas between them."""
    known = {name.lower(): name for name in names}
    given = [part.strip() for part in text.split(",") if part.strip()]
    for name in given:
        if name.lower() not in known:
            raise ModelError(
                f"query {query}: the option {option} names {name}, which is no column of the query",
                detail=f"Its columns: {', '.join(names)}.",
            )
    return tuple(dict.fromkeys(known[name.lower()] for name in given))


def check_installed(whose: str, kind: str, modules: Collection[str], extra: str) -> None:
    """Reject a connector whose packages are missing."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ModelError(
            f"{whose}: {kind} needs the package {missing[0]}, which is not installed",
            hint=f"pip install 'watersmeet[{extra}]'",
        )
