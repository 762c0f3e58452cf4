"""Stores outside of a home for the tests of connectors: a private Postgres server."""
