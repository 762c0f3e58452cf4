"""Options that are secrets. Their values are named, `env('NAME')` or `file('PATH')`, and never written: what stands in
the SQL is stored in the home and shown in errors. A name is resolved where a process connects
(`io/connectors/secrets.py`).
"""

from __future__ import annotations

import re

KINDS = ("env", "file")
_REFERENCE = re.compile(r"(env|file)\('((?:[^']|'')*)'\)")
_SECRET = re.compile(
    r"password|secret|passphrase|(^|[._])token$|\.pem$|user\.info$|oauthbearer\.config$", re.IGNORECASE
)
HINT = "write env('NAME') for an environment variable, or file('PATH')"


# An option and what follows its equals sign, if that is a literal; also where the quotation mark at its end is missing.
_WRITTEN = re.compile(r"""([\w.]+)(['"`]?\s*=\s*)(['"])((?:(?!\3).)*)""", re.DOTALL)


# In a connection string: after a word, or before the @ of an address.
_IN_ADDRESS = re.compile(r"""(password=)(?!\w+\()([^\s'"]+)|(://[^/@\s:'"]*:)([^\s'"@]+)(?=@)""", re.IGNORECASE)


def masked(text: str) -> str:
    """A SQL text, for errors that show it, with stars in place of secrets that were written in it all the same."""

    def mask(found: re.Match[str]) -> str:
        if not is_secret(found[1]):
            return found[0]
        return found[1] + found[2] + found[3] + re.sub(r"\S", "*", found[4])

    return _IN_ADDRESS.sub(_mask_address, _WRITTEN.sub(mask, text))


def _mask_address(found: re.Match[str]) -> str:
    before, secret = (found[1], found[2]) if found[1] else (found[3], found[4])
    return before + "*" * len(secret)


def is_secret(option: str) -> bool:
    return _SECRET.search(option) is not None


def reference(kind: str, name: str) -> str:
    """The text of a reference, in which it is stored and shown."""
    quoted = name.replace("'", "''")
    return f"{kind}('{quoted}')"


def referenced(value: str) -> tuple[str, str] | None:
    """Kind and name, if the value is a reference."""
    found = _REFERENCE.fullmatch(value)
    return (found[1], found[2].replace("''", "'")) if found else None
