"""What the optimizer's process does: a handler of `runtime/child_main.py`."""

from watersmeet.plan.planner import propose as answer

__all__ = ["answer"]
