"""The handler of the optimizer's process, for `runtime/child_main.py`."""

from watersmeet.plan.proposals import propose as answer

__all__ = ["answer"]
