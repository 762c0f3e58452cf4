"""How many examples a state machine of whole engines tries: few, as each takes long, or those of a search."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(usual: int) -> int:
    """`HYPOTHESIS_PROFILE=search WATERSMEET_EXAMPLES=1000` tries a thousand."""
    return settings().max_examples if os.environ.get("HYPOTHESIS_PROFILE") == "search" else usual
