"""The help of commands. Not docstrings: their line breaks would stay, wherever the edge of the terminal is."""

from __future__ import annotations


def help_text(*paragraphs: str, examples: tuple[str, ...] = ()) -> str:
    shown = "\n".join(f"  {example}" for example in examples)
    return "\n\n".join([*paragraphs, *(["Examples:", shown] if examples else [])])
