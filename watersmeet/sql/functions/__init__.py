"""The closed table of functions and operators, one module for each family. A new one is an entry with examples."""

from watersmeet.sql.functions import arithmetic, logic, nested, strings, times
from watersmeet.sql.functions.table import TABLE, build_call

__all__ = ["TABLE", "arithmetic", "build_call", "logic", "nested", "strings", "times"]
