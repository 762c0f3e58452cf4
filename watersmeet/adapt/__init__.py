"""The plan follows the data: statistics at run time, epochs, and the optimizer beside the ticks."""
