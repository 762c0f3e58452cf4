"""Benchmarks: programs that print a table and write JSON. Ratios within one run count, never bare times."""
