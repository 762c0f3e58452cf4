"""The systems that are compared, each run in a process of its own (and, where it needs one, an environment of its own)."""
