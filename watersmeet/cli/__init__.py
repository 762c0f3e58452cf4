"""The command line: every command, its screens and the demo."""

from watersmeet.cli.app import main

__all__ = ["main"]
