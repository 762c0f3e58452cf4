from tests.support.faults.fixtures import say, victim  # noqa: F401 - fixtures
