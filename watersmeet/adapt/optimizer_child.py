"""The child of `optimizer_process.py`: answers requests until nobody asks any more."""

from __future__ import annotations

import os
import pickle
import sys
from typing import BinaryIO

from watersmeet.adapt.proposal import Proposal, Request, propose


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Until the other side is gone. A problem that cannot be solved is an answer, too."""
    while True:
        try:
            request: Request = pickle.load(requests)
        except EOFError:
            return
        outcome: Proposal | str
        try:
            outcome = propose(request)
        except Exception as problem:
            outcome = f"{type(problem).__name__}: {problem}"
        pickle.dump(outcome, answers)
        answers.flush()


if __name__ == "__main__":
    os.nice(5)  # ticks come first
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a solver prints must not mix with answers
    with os.fdopen(own, "wb") as answers_pipe:
        serve(sys.stdin.buffer, answers_pipe)
