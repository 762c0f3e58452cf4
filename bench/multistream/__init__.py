"""The experiments of the MultiStream paper (section V, Fig. 8) with Watersmeet, on one machine."""
