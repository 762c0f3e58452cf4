"""Windowed queries against other systems: `bench/run windows`."""
