"""What the optimizer's process does: a handler of `runtime/child_main.py`."""

from watersmeet.adapt.proposal import propose as answer

__all__ = ["answer"]
