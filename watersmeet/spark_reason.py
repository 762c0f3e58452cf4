"""What Spark says of a failure, in a line: the message and what has caused it, without Java's stack trace."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

_LONGEST = 500
_ABORTED = re.compile(r"^.*Job aborted due to stage failure: Task .*?\(TID \d+\) \(.*?\): ")
_NOISE = re.compile(r"^(An error occurred while calling [\w.]+|[\w.]+Exception:|Error from python worker:|)$")
_AT = re.compile(r"^(at |\.\.\. \d+ more|Driver stacktrace:|JVM stacktrace:|Traceback )")
# Exceptions that only carry another one; what they say is its text.
_CARRIERS = re.compile(r"^(java\.lang\.RuntimeException|java\.util\.concurrent\.\w+|java\.lang\.reflect\.\w+): ?")


def spark_reason(problem: BaseException) -> str:
    """The first message that says something, and the cause at the bottom where that is another one."""
    said = [text for text in (_first_line(each) for each in _messages(problem)) if text]
    if not said:
        return type(problem).__name__
    told, bottom = _plain(said[0]), _plain(said[-1])
    if bottom in told or _without_class(bottom) in told:
        return told[:_LONGEST]
    return f"{told[:_LONGEST]}; caused by {bottom[:_LONGEST]}"


def _messages(problem: BaseException) -> Iterator[str]:
    """Of an exception and all that have caused it: Java's own, those that PySpark made of them, or as in the text."""
    java = getattr(problem, "java_exception", None)
    if java is not None:
        try:
            while java is not None:
                yield str(java.toString())
                java = java.getCause()
            return
        except Exception:  # Java is gone: the text says what is known
            pass
    try:
        yield str(problem)
    except Exception:
        yield type(problem).__name__
    cause = getattr(problem, "_cause", None)  # of PySpark's
    if cause is not None:
        yield from _messages(cause)
    else:
        with contextlib.suppress(Exception):
            yield from re.findall(r"^Caused by: (.*)", str(problem), re.MULTILINE)


def _first_line(text: str) -> str:
    if "Traceback (most recent call last)" in text:  # of a Python task: its last line says what was raised
        python = re.findall(r"^([\w.]+(?:Error|Exception|Exit|Interrupt|Warning)\b.*)", text, re.MULTILINE)
        if python:
            return str(python[-1])
    text = _ABORTED.sub("", text)
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    lines = [line for line in lines if not _NOISE.match(line.rstrip(".")) and not _AT.match(line)]
    return next((line for line in lines if line.startswith("[")), lines[0] if lines else "")


def _plain(text: str) -> str:
    while carrier := _CARRIERS.match(text):
        text = text[carrier.end() :]
    return text


def _without_class(text: str) -> str:
    return re.sub(r"^[\w.$]+(Exception|Error): ", "", text)
