"""The systems that are compared, each run in a process of its own; two need an environment of their own too."""
