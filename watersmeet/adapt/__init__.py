"""Adaptation of the plan to the data: statistics at run time, epochs, and the optimizer in the background."""
