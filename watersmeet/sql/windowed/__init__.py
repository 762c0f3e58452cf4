"""Windowed queries: names, types, the grid, and the class of a query; the Spark text of those that Spark computes."""
