"""The cluster tests run the fault tests' program."""

from tests.fault.conftest import say, victim  # noqa: F401 - fixtures
