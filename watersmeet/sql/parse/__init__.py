"""All contact with sqlglot: nothing outside this package imports it or sees its nodes.

A new version of sqlglot therefore affects only this package.
"""

from watersmeet.sql.parse.parsing import is_known_function
from watersmeet.sql.parse.queries import parse_query
from watersmeet.sql.parse.tokens import tokenize

__all__ = ["is_known_function", "parse_query", "tokenize"]
