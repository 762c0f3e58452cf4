"""One Spark session for the whole run, and Hypothesis profiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=True
)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=list(HealthCheck))
settings.register_profile(  # for work on a failure: the first one found, as it is
    "quick", settings.get_profile("default"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from watersmeet.session import make_session

    session = make_session("local[4,4]")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def no_resident_is_left() -> Iterator[None]:
    """An engine that a test did not stop would hold slots of the session that the next test counts on."""
    yield
    for executor in list(getattr(sys.modules.get("watersmeet.runtime.exec.spark"), "_executors", ())):
        executor.close()
