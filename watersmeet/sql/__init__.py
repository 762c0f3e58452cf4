"""SQL text to streams and queries: `parse_script` for whole scripts, `build_query` for one SELECT."""

from watersmeet.sql.duration import micros, micros_or_none, parse_duration
from watersmeet.sql.query import build_query
from watersmeet.sql.same_text import same_text
from watersmeet.sql.script import CreateQuery, CreateStream, DropQuery, Statement, parse_each, parse_script

__all__ = [
    "CreateQuery",
    "CreateStream",
    "DropQuery",
    "Statement",
    "build_query",
    "micros",
    "micros_or_none",
    "parse_duration",
    "parse_each",
    "parse_script",
    "same_text",
]
